"""One node at one time: its objects, its policy, and the decision about its Mid resources. Pure."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from typing import Final

from api_types.node_metric import mid_eviction
from api_types.node_metric.mid_report import MidPolicy, MidReport
from api_types.node_metric.mid_status import MidStatus
from manager.cache import store
from manager.mid_resource import calculator, closing, decision
from manager.mid_resource.decision import Decision, DecisionInputs
from manager.mid_resource.reasons import Closed
from manager.slo_config.strategy import NodeStrategy

FROM_REPORT: Final = "report"
FROM_PODS: Final = "pods"
UNKNOWN: Final = "unknown"
"""Sources of the requests in a target."""


@dataclass(frozen=True)
class Case:
    """One node at one time, decided."""

    name: str
    node: store.Node
    report: MidReport
    strategy: NodeStrategy
    policy: MidPolicy
    published: calculator.Published
    inputs: DecisionInputs
    decision: Decision
    now: dt.datetime

    @property
    def written(self) -> MidStatus | None:
        """Return the status annotation of the node."""
        return self.node.mid_status

    @property
    def closed(self) -> Closed:
        """Return why the node accepts no new Mid pod."""
        return closing.why_closed(self.node, self.strategy)

    @property
    def is_evicted_from(self) -> bool:
        """Check whether the manager evicts Mid pods of the node: they leave room before a report shows it."""
        return mid_eviction.of(self.node) is not None

    @property
    def refresh_period(self) -> dt.timedelta:
        """Return the age at which the node is written again."""
        return decision.period(self.strategy.strategy.update_time_threshold_seconds or 0)

    @property
    def is_shadow(self) -> bool:
        """Check whether nothing is written to the node: Mid is in shadow, and no Mid of this manager is left there."""
        return not self.policy.publishes and self.written is None
