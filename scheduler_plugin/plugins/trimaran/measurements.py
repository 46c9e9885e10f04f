"""Measurements of each node, selected from the records of the load watcher.

CPU and memory are selected one by one: a resource that is missing in the newest 15 minute window is taken from the
shorter windows, then from earlier snapshots, then from the selection before, until it is too old (KEP-61). Only a
resource with a mean is measured: without one it is absent, never 0. Mean and deviation are the last AVG and STD records
of a resource. With formula `upstream` plugins read the records as shipped: any record makes a resource valid,
TargetLoadPacking uses the last AVG or Latest record of CPU and Peaks the first one. Every measurement has the window of
its own node.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from scheduler_plugin.load_watcher import records
from scheduler_plugin.load_watcher.records import Metric, MetricType, NodeMetrics, Snapshot, Statistic, Window, Windows

_NO_WINDOW: Final = Window()
_NO_RATES: Final[Mapping[str, float]] = {}


class Utilization(NamedTuple):
    """Utilization of one resource of a node in percent of capacity."""

    mean: float
    """0 without a mean."""
    deviation: float
    """0 without a deviation: a provider whose `has_deviation` is False never delivers one."""
    is_measured: bool
    """Whether there is a mean."""
    is_valid: bool = False
    """Whether there is any record, which is enough for formula `upstream`."""
    is_rejected: bool = False
    """Whether records were delivered and all dropped: the node is not a new one."""
    end: float = -math.inf
    """End of the window, in seconds since the epoch."""
    window_seconds: float = 0.0
    source: str = ""
    """Names of the providers, in order of trust."""


_NOTHING: Final = Utilization(0.0, 0.0, is_measured=False)


class NodeUtilization(NamedTuple):
    """Measurement of one node."""

    cpu: Utilization
    memory: Utilization
    packing_percent: float
    """CPU as upstream's TargetLoadPacking selects it; NaN without a record."""
    power_percent: float
    """CPU as upstream's Peaks selects it; NaN without a record."""

    @property
    def is_complete(self) -> bool:
        """Return whether both resources are measured."""
        return self.cpu.is_measured and self.memory.is_measured


def utilization(
    metrics: Sequence[Metric], kind: MetricType, window: Window = _NO_WINDOW, source: str = ""
) -> Utilization:
    """Return mean and deviation of a resource: the last AVG, else the last Latest or unnamed one; the last STD."""
    of_kind = [metric for metric in metrics if metric.type == kind]
    means = [metric.value for metric in of_kind if metric.operator == Statistic.AVG]
    if not means:
        means = [metric.value for metric in of_kind if metric.operator in (Statistic.LATEST, "")]
    deviations = [metric.value for metric in of_kind if metric.operator == Statistic.STD]
    return Utilization(
        means[-1] if means else 0.0,
        deviations[-1] if deviations else 0.0,
        is_measured=bool(means),
        is_valid=bool(of_kind),
        end=window.end if means else -math.inf,
        window_seconds=window.end - window.start,
        source=source,
    )


def read(node: NodeMetrics, snapshot: Snapshot) -> NodeUtilization:
    """Read the measurement of one node from its records."""
    utilizations = [
        utilization(node.metrics, kind, node.window or snapshot.window, snapshot.source) for kind in records.BOUNDED
    ]
    for index, kind in enumerate(records.BOUNDED):
        if node.rejected and kind in node.rejected and not utilizations[index].is_measured:
            utilizations[index] = utilizations[index]._replace(is_rejected=True)
    cpu = [
        metric.value
        for metric in node.metrics
        if metric.type == MetricType.CPU and metric.operator in (Statistic.AVG, Statistic.LATEST)
    ]
    return NodeUtilization(utilizations[0], utilizations[1], cpu[-1] if cpu else math.nan, cpu[0] if cpu else math.nan)


def _completed(newer: NodeUtilization, older: NodeUtilization) -> NodeUtilization:
    cpu, memory = (_first_measured(*both) for both in zip(newer[:2], older[:2], strict=True))
    of_cpu = older if _takes_older(newer.cpu, older.cpu) else newer
    return NodeUtilization(cpu, memory, of_cpu.packing_percent, of_cpu.power_percent)


def _takes_older(newer: Utilization, older: Utilization) -> bool:
    return not newer.is_measured and (older.is_measured or not newer.is_valid)


def _first_measured(newer: Utilization, older: Utilization) -> Utilization:
    if newer.is_measured:
        return newer
    chosen = older if _takes_older(newer, older) else newer
    return chosen._replace(is_rejected=not chosen.is_measured and (newer.is_rejected or older.is_rejected))


class Measurements:
    """Best measurement of every node, shared by all plugins of the process."""

    def __init__(
        self, oldest_seconds: float = records.OLDEST_SECONDS, rate_seconds: Mapping[str, float] = _NO_RATES
    ) -> None:
        self.oldest_seconds = oldest_seconds
        """Age limit of windows, in seconds."""
        self.rate_seconds = rate_seconds
        """Provider -> seconds over which each of its samples of the CPU is averaged."""
        self._by_name: Mapping[str, NodeUtilization] = {}
        self.newest_ends: tuple[float, ...] = (-math.inf, -math.inf)
        """End of the newest window of any node that has CPU, and memory: the last times that data was delivered.

        As of the rows of the plugins: until all of them are rewritten, it is that of before, because new ends beside
        old rows would make measured nodes unknown.
        """
        self._selected_ends: tuple[float, ...] = self.newest_ends

    def find(self, name: str) -> NodeUtilization | None:
        """Return the measurement of one node; None if no window has it."""
        return self._by_name.get(name)

    def select(self, windows: Windows, now: float) -> None:
        """Select each resource of every node: newest snapshot first, and of these the longest window first.

        The caller rewrites the rows of all plugins, and then calls `confirm_rows`.
        """
        by_name: dict[str, NodeUtilization] = {}
        for snapshot in _best_first(windows):
            for name, node in snapshot.data.nodes.items():
                selected = by_name.get(name)
                if selected is not None and selected.is_complete:
                    continue
                is_fresh = now - (node.window or snapshot.window).end <= self.oldest_seconds
                if is_fresh and (node.metrics or node.rejected):
                    measurement = read(node, snapshot)
                    by_name[name] = measurement if selected is None else _completed(selected, measurement)
        for name, before in self._by_name.items():  # its snapshot may have been replaced by five with less data
            selected = by_name.get(name)
            if selected is None or not selected.is_complete:
                fresh = [of if now - of.end <= self.oldest_seconds else _NOTHING for of in before[:2]]
                if any(of.is_measured for of in fresh):
                    measurement = before._replace(cpu=fresh[0], memory=fresh[1])
                    by_name[name] = measurement if selected is None else _completed(selected, measurement)
        self._by_name = by_name
        by_resource = zip(*(measurement[:2] for measurement in by_name.values()), strict=True) if by_name else ((), ())
        self._selected_ends = tuple(
            max((of.end for of in utilizations if of.is_measured), default=before)
            for utilizations, before in zip(by_resource, self.newest_ends, strict=True)
        )

    def confirm_rows(self) -> None:
        """Publish the ends of the selection: the rows of all plugins are rewritten."""
        self.newest_ends = self._selected_ends


def _best_first(windows: Windows) -> Iterator[Snapshot]:
    for newest_first in range(records.KEPT):
        for duration in records.DURATIONS_SECONDS:
            snapshots = windows.kept(duration)
            if newest_first < len(snapshots):
                yield snapshots[-1 - newest_first]
