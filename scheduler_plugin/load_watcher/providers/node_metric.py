"""NodeMetric: koordlet's reports. It sends no requests, because the reports are already in memory.

Mean and deviation of a window are those of the report's aggregation over that window. Upstream's agent reports neither
15 minutes nor a deviation: the provider then uses the current usage, with the statistic `Latest`. The window of each
node ends with the sample of its report, which is up to a report interval old.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from api_types import names
from scheduler_plugin.load_watcher import records
from scheduler_plugin.load_watcher.providers import provider, provider_spec
from scheduler_plugin.load_watcher.providers.provider import Fetched, KnownNode, ReadKnownNodes
from scheduler_plugin.load_watcher.records import (
    BOUNDED,
    DURATIONS_SECONDS,
    Metric,
    MetricType,
    NodeMetrics,
    Statistic,
    Window,
)
from scheduler_plugin.state.node_report import NodeReport

RESOURCES: Final = (names.CPU, names.MEMORY)
"""Resources that are read from a report."""

_NODES_PER_TURN: Final = 10  # then yield to the event loop, so that other tasks do not wait

_NANOS: Final = 10**9
_STATISTICS: Final = {"avg": Statistic.AVG, "std": Statistic.STD}

Reports = Callable[[], Mapping[str, NodeReport]]
"""Returns the newest report of each node; `state.node_report` reads them."""


@dataclass(frozen=True, eq=False)
class NodeMetricProvider:
    """Provider that reads the reports in memory."""

    reports: Reports
    nodes: ReadKnownNodes
    resources: Sequence[str] = RESOURCES
    """Resources in the vectors of a report, in this order."""
    name = provider_spec.NODE_METRIC
    has_deviation = False

    async def check(self) -> Sequence[str]:
        """Return no problems: each refresh names the nodes without a report."""
        return ()

    async def fetch(self, window: Window) -> Fetched:
        """Return the statistics of every node with a report."""
        reports, places = self.reports(), [self.resources.index(name) for name in RESOURCES]
        nodes = {}
        for count, (name, node) in enumerate(self.nodes().items(), start=1):
            if count % _NODES_PER_TURN == 0:
                await asyncio.sleep(0)
            report = reports.get(name)
            sampled = None if report is None else report.update_time
            if report is None or sampled is None:
                continue
            metrics = list(_metrics(window, report, node, places))
            is_aggregated = any(metric.operator == Statistic.AVG for metric in metrics)
            own_window = (
                records.window_ending_at(window.duration, sampled) if is_aggregated else records.moment(sampled)
            )
            nodes[name] = NodeMetrics(metrics, {}, node.metadata, own_window)
        return Fetched(nodes)

    async def is_healthy(self) -> bool:
        """Return whether any agent has reported."""
        return bool(self.reports())

    async def close(self) -> None:
        """Do nothing: there are no connections."""


def _metrics(window: Window, report: NodeReport, node: KnownNode, places: Sequence[int]) -> Iterator[Metric]:
    capacity = (node.cpu_millis, node.memory_bytes)
    nanos = DURATIONS_SECONDS[window.duration] * _NANOS
    by_statistic = {
        statistic: report.aggregated[name, nanos]
        for name, statistic in _STATISTICS.items()
        if (name, nanos) in report.aggregated
    }
    if Statistic.AVG not in by_statistic and report.node_usage is not None:
        by_statistic[Statistic.LATEST] = report.node_usage
    means = by_statistic.get(Statistic.AVG) or by_statistic.get(Statistic.LATEST)
    for statistic, vector in by_statistic.items():
        for kind, place, whole in zip(BOUNDED, places, capacity, strict=True):
            if not means or not means[place]:  # the report lacks it; a node with an agent uses some of each
                continue
            percent = provider.to_percent(vector[place], whole)
            if percent is not None:
                if kind is MetricType.MEMORY:  # with what is swapped out, more than there is may be in use
                    percent = min(percent, 100.0)
                yield Metric(f"node {kind.lower()} usage", kind, statistic, window.duration, percent)
