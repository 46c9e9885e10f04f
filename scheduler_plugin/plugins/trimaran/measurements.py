"""Measurements of each node, selected from the records of the load watcher.

A node that is missing in the newest 15 minute window is taken from the shorter windows, then from earlier snapshots
(KEP-61). Mean and deviation are the last AVG and STD records of a resource; TargetLoadPacking uses the last AVG or
Latest record of CPU and Peaks the first one, as upstream does. Every measurement has the end of its window.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from scheduler_plugin.load_watcher.records import (
    DURATIONS_SECONDS,
    Metric,
    MetricType,
    NodeMetrics,
    Snapshot,
    Statistic,
)
from scheduler_plugin.load_watcher.windows import KEPT, Windows

OLDEST_SECONDS: Final = 300.0
"""Default age limit of a window (KEP-61: not older than 5 minutes)."""


class Utilization(NamedTuple):
    """Utilization of one resource in percent of capacity. `is_measured`: any record of the resource exists."""

    mean: float
    deviation: float
    is_measured: bool


class Measurement(NamedTuple):
    """Measurement of one node."""

    cpu: Utilization
    memory: Utilization
    packing_percent: float
    """CPU as TargetLoadPacking selects it; NaN without a record."""
    power_percent: float
    """CPU as Peaks selects it; NaN without a record."""
    duration: str
    end: float
    """End of the window, in seconds since the epoch."""
    source: str
    """Names of the providers, in order of trust."""


def utilization(metrics: Sequence[Metric], kind: MetricType) -> Utilization:
    """Return mean and deviation of a resource: the last AVG, else the last Latest or unnamed one; the last STD.

    A missing mean or deviation is 0. Any record of the resource sets `is_measured`.
    """
    of_kind = [metric for metric in metrics if metric.type == kind]
    means = [metric.value for metric in of_kind if metric.operator == Statistic.AVG]
    moments = [metric.value for metric in of_kind if metric.operator in (Statistic.LATEST, "")]
    deviations = [metric.value for metric in of_kind if metric.operator == Statistic.STD]
    mean = (means or moments or [0.0])[-1]
    return Utilization(mean, deviations[-1] if deviations else 0.0, bool(of_kind))


def read(node: NodeMetrics, snapshot: Snapshot) -> Measurement:
    """Select the measurement of one node from its records."""
    cpu = [
        metric.value
        for metric in node.metrics
        if metric.type == MetricType.CPU and metric.operator in (Statistic.AVG, Statistic.LATEST)
    ]
    return Measurement(
        utilization(node.metrics, MetricType.CPU),
        utilization(node.metrics, MetricType.MEMORY),
        cpu[-1] if cpu else math.nan,
        cpu[0] if cpu else math.nan,
        snapshot.window.duration,
        snapshot.window.end,
        snapshot.source,
    )


class Measurements:
    """Best measurement of every node, shared by all plugins of the process."""

    def __init__(self, oldest_seconds: float = OLDEST_SECONDS) -> None:
        self.oldest_seconds = oldest_seconds
        """Age limit of windows, in seconds."""
        self._by_name: Mapping[str, Measurement] = {}
        self.newest_end = -math.inf
        """End of the newest window of any node: the last time that any provider delivered data."""

    def of(self, name: str) -> Measurement | None:
        """Return the measurement of one node; None if no window has it."""
        return self._by_name.get(name)

    def select(self, windows: Windows, now: float) -> None:
        """Select the measurement of every node: newest snapshot first, and of these the longest window first."""
        by_name: dict[str, Measurement] = {}
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
        self.newest_end = max((measurement.end for measurement in by_name.values()), default=self.newest_end)
