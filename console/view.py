"""What the console has read of the cluster, and how current it is. Pure."""

from __future__ import annotations

import datetime as dt
import enum
import functools
import math
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from api_types import names
from api_types.node_metric import evaluation_report
from fleet import checks
from fleet.checks import CheckVerdict
from fleet.findings import Finding, FleetSnapshot
from fleet.node_state import Amounts, NodeState
from fleet.pod_state import total

_SUMMED: Final = ("allocatable", "used", "prod_used", "mid_used", "prod_requests", "prod_peak", "mid", "mid_requests")


class Currency(enum.StrEnum):
    """How current a snapshot is."""

    LOADING = "loading"
    """Nothing was read yet."""
    FAILED = "failed"
    """Nothing was read, and the last attempt failed."""
    CURRENT = "current"
    STALE = "stale"
    """The last attempts failed or are late: the snapshot is an old one."""


@dataclass(frozen=True)
class FleetView:
    """The newest snapshot, and the result of the last attempt to read one."""

    snapshot: FleetSnapshot | None = None
    read_seconds: float = 0.0
    """Time that the snapshot took."""
    late_after_seconds: float = 60.0
    """Age above which the snapshot is stale."""
    error: str = ""
    """Why the last attempt failed; empty after a success."""

    @property
    def nodes(self) -> tuple[NodeState, ...]:
        """Return the nodes of the snapshot."""
        return (self.snapshot.nodes if self.snapshot else None) or ()

    @property
    def usage_limit_percent(self) -> float | None:
        """Return the CPU usage above which LoadAwareScheduling places no pod; None where it is not known."""
        return self.snapshot.usage_limits.get(names.CPU) if self.snapshot else None

    @functools.cached_property
    def totals(self) -> Mapping[str, Amounts]:
        """Return the sums over all nodes, by the field of NodeState."""
        return {name: total(getattr(node, name) for node in self.nodes) for name in _SUMMED}

    @functools.cached_property
    def findings(self) -> list[Finding]:
        """Return all findings, the worst first."""
        return checks.find(self.checks)

    @functools.cached_property
    def checks(self) -> list[CheckVerdict]:
        """Return the result of every check."""
        return list(checks.results(self.snapshot)) if self.snapshot else []

    @functools.cached_property
    def evaluations(self) -> Mapping[tuple[str, str], evaluation_report.Fleet]:
        """Return the scores of each predictor and resource over all nodes."""
        return evaluation_report.combined(node.evaluation for node in self.nodes if node.evaluation)

    @functools.cached_property
    def by_violations(self) -> list[NodeState]:
        """Return the nodes with an evaluation, the most violations of CPU of the predictor in force first."""
        evaluated = [node for node in self.nodes if node.evaluation]
        return sorted(evaluated, key=lambda node: (-_violations(node.evaluation), node.name))

    def prepared(self) -> FleetView:
        """Compute what the pages need of all nodes, once and not while a request waits; return self."""
        _ = self.totals, self.findings, self.evaluations, self.by_violations
        return self

    def node(self, name: str) -> NodeState | None:
        """Return a node of the snapshot."""
        return next((node for node in self.nodes if node.name == name), None)

    def age_seconds(self, now: dt.datetime) -> float:
        """Return the age of the snapshot."""
        return max((now - self.snapshot.time).total_seconds(), 0.0) if self.snapshot else 0.0

    def currency(self, now: dt.datetime) -> Currency:
        """Return how current the snapshot is."""
        if self.snapshot is None:
            return Currency.FAILED if self.error else Currency.LOADING
        late = self.age_seconds(now) > self.late_after_seconds
        return Currency.STALE if late else Currency.CURRENT


def _violations(packed: evaluation_report.Packed | None) -> float:
    """Return the violations of CPU of the first predictor, in percent; -1 where they do not count."""
    if packed is None or not packed.predictors:
        return -1.0
    _, violations, _ = struct.unpack_from("3f", packed.scores)
    return -1.0 if math.isnan(violations) else violations
