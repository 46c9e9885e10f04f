"""What the load watcher says of each node, as the policies select it from its records (reference trimaran section 2).

A node that the newest 15 minute window lacks is looked for in the shorter ones, then in the snapshots before: the
first rung of the ladder (G4). Every reading keeps the end of its window, so that its age is never in doubt.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from scheduler_plugin.load_watcher.records import DURATIONS_SECONDS, Metric, MetricType, NodeMetrics, Operator, Snapshot
from scheduler_plugin.load_watcher.windows import KEPT, Windows

OLDEST_SECONDS: Final = 300.0
"""A window that ended longer ago says nothing of now (KEP-61: not older than 5 minutes); a setting says another age."""


class Utilisation(NamedTuple):
    """Of one resource, in percent of capacity. `is_valid`: the resource was measured at all."""

    mean: float
    deviation: float
    is_valid: bool


class Reading(NamedTuple):
    """Of one node."""

    cpu: Utilisation
    memory: Utilisation
    packing_percent: float
    """CPU as TargetLoadPacking selects it; NaN where there is none."""
    power_percent: float
    """CPU as Peaks selects it; NaN where there is none."""
    duration: str
    end: float
    """When its window ended, seconds since the epoch."""
    source: str
    """Names of the providers it comes from, in order of trust."""


def utilisation(metrics: Sequence[Metric], kind: MetricType) -> Utilisation:
    """Mean and deviation: the last AVG, else the last without a statistic; any record makes the resource valid."""
    of_kind = [metric for metric in metrics if metric.type == kind]
    means = [metric.value for metric in of_kind if metric.operator == Operator.AVG]
    moments = [metric.value for metric in of_kind if metric.operator in (Operator.LATEST, "")]
    deviations = [metric.value for metric in of_kind if metric.operator == Operator.STD]
    mean = (means or moments or [0.0])[-1]
    return Utilisation(mean, deviations[-1] if deviations else 0.0, bool(of_kind))


def read(node: NodeMetrics, snapshot: Snapshot) -> Reading:
    """Select from the records of one node."""
    cpu = [
        metric.value
        for metric in node.metrics
        if metric.type == MetricType.CPU and metric.operator in (Operator.AVG, Operator.LATEST)
    ]
    return Reading(
        utilisation(node.metrics, MetricType.CPU),
        utilisation(node.metrics, MetricType.MEMORY),
        cpu[-1] if cpu else math.nan,
        cpu[0] if cpu else math.nan,
        snapshot.window.duration,
        snapshot.window.end,
        snapshot.source,
    )


class Measurements:
    """The best reading of every node, for all policies of the process (B7: there is one, not one a plugin)."""

    def __init__(self, oldest_seconds: float = OLDEST_SECONDS) -> None:
        self.oldest_seconds = oldest_seconds
        """Age up to which windows count, in seconds."""
        self._by_name: Mapping[str, Reading] = {}
        self.newest_end = -math.inf
        """End of the newest window of any node: how long ago all providers fell silent."""

    def of(self, name: str) -> Reading | None:
        """Of one node; None where no window knows it."""
        return self._by_name.get(name)

    def take(self, windows: Windows, now: float) -> None:
        """Select anew from what the windows keep: longest window first, newest snapshot first."""
        by_name: dict[str, Reading] = {}
        for newest_first in range(KEPT):
            for duration in DURATIONS_SECONDS:
                kept = windows.kept(duration)
                if newest_first >= len(kept):
                    continue
                snapshot = kept[-1 - newest_first]
                if now - snapshot.window.end > self.oldest_seconds:
                    continue
                for name, node in snapshot.data.nodes.items():
                    if name not in by_name and node.metrics:
                        by_name[name] = read(node, snapshot)
        self._by_name = by_name
        self.newest_end = max((reading.end for reading in by_name.values()), default=self.newest_end)
