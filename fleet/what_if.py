"""Calculate the Mid resources of a node under another configuration, from its present report. Pure.

The formula is the manager's own. What another predictor would predict is not in a report: the peak is the present one.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from typing import NamedTuple

from api_types import names
from api_types.colocation import presets
from api_types.node_metric import mid_eviction, mid_report
from api_types.node_metric.mid_report import Requests
from fleet import node_state, wire
from fleet.node_state import UNKNOWN, Amounts, NodeState
from manager.cache import store
from manager.mid_resource import decision, formula
from manager.mid_resource.decision import Action
from manager.node_metric import spec
from manager.slo_config.strategy import NodeStrategy


class WhatIfOutcome(NamedTuple):
    """Mid resources under one configuration; unknown where the report or its requests are not usable."""

    mid: Amounts
    reason: str


@dataclass(frozen=True)
class NodeChange:
    """One node under two configurations."""

    name: str
    before: WhatIfOutcome
    after: WhatIfOutcome
    published: Amounts
    mid_requests: Amounts
    predicts_otherwise: bool
    """Whether its agent would predict with another policy, so that `after` has the peak of the present one."""
    predicted_pods: int
    """Warm and borrowed."""
    cold_pods: int

    @property
    def is_known(self) -> bool:
        """Check whether both sides are known."""
        return UNKNOWN not in (self.before.mid, self.after.mid)

    @property
    def change(self) -> Amounts:
        """Return what the second configuration gives more, negative for less; unknown where a side is."""
        return self.after.mid.minus(self.before.mid)

    @property
    def takes(self) -> bool:
        """Check whether the node would have less of one of both."""
        return any(amount is not None and amount < 0 for amount in self.change)

    @property
    def is_short(self) -> bool:
        """Check whether the change would leave less than the Mid pods of the node request."""
        pairs = zip(self.after.mid, self.mid_requests, strict=True)
        return self.takes and any(None not in (after, requested) and after < requested for after, requested in pairs)  # type: ignore[operator]


def compare(
    name: str,
    node: store.StoredNode,
    metric: wire.WireNodeMetric | None,
    strategies: tuple[NodeStrategy, NodeStrategy],
    now: dt.datetime,
) -> NodeChange:
    """Compare a node under its present strategy and under another one."""
    state = node_state.combine(name, node, metric, now)
    before, after = (_outcome(node, metric, state, strategy, now) for strategy in strategies)
    old, new = (spec.wire_for_node(strategy, may_evict=True).get("predictPolicy") for strategy in strategies)
    return NodeChange(
        name,
        before,
        after,
        state.mid,
        state.mid_requests,
        predicts_otherwise=strategies[1].enabled and old != new,
        predicted_pods=(state.warm_pods or 0) + state.borrowed_pods,
        cold_pods=state.cold_pods or 0,
    )


def is_gated(strategy: NodeStrategy) -> bool:
    """Check whether the agent gets a larger peak than the strategy wants, unless the manager may evict."""
    policy = strategy.strategy.node_predict_policy
    return strategy.enabled and policy is not None and presets.is_gated(policy)


def evicts(strategy: NodeStrategy) -> bool:
    """Check whether the strategy wants Mid pods to be evicted."""
    eviction = strategy.strategy.mid_eviction
    return eviction is not None and eviction.mode == "evict"


def _outcome(
    node: store.StoredNode,
    metric: wire.WireNodeMetric | None,
    state: NodeState,
    strategy: NodeStrategy,
    now: dt.datetime,
) -> WhatIfOutcome:
    keys = spec.for_node(strategy).mid_colocation_policy
    assert keys is not None
    policy = mid_report.mid_policy(keys)
    gathered = decision.gather(node, metric, policy, enabled=strategy.enabled)
    decided = decision.decide(gathered, now)
    reason = decided.reason.value
    if decided.action is Action.KEEP:
        return WhatIfOutcome(state.mid, reason)
    requested = state.mid_requests
    if decided.action is Action.WITHDRAW or not policy.publishes:
        return WhatIfOutcome(Amounts(*((amount or 0) if policy.floor else 0 for amount in requested)), reason)
    if gathered.usable is None or UNKNOWN in (state.prod_requests, requested):
        return WhatIfOutcome(UNKNOWN, reason)
    target = formula.evaluated(
        node,
        gathered.usable,
        policy,
        gathered.usable.requests
        or Requests(
            {names.CPU: state.prod_requests.cpu or 0, names.MEMORY: state.prod_requests.memory or 0},
            {names.MID_CPU: requested.cpu or 0, names.MID_MEMORY: requested.memory or 0},
        ),
        sample=gathered.sample_time,
        max_increase_percent=None,
        closed=decision.why_closed(decision.classify(node), mid_eviction.eviction_record(node), strategy),
    )
    return WhatIfOutcome(Amounts(*(target.values[mid] for mid in names.MID_RESOURCES)), reason)
