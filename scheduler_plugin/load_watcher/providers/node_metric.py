"""NodeMetric: what koordlet reports. No dependency, no polling of anybody: the reports are in memory already.

A window's mean and deviation are those of the report's aggregation over that window. Where a report has no such window
(upstream's agent reports no 15 minutes and no deviation) the usage of the moment stands in, as operator `Latest`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from api_types import names
from scheduler_plugin.load_watcher import known_nodes
from scheduler_plugin.load_watcher.known_nodes import KnownNode, KnownNodes
from scheduler_plugin.load_watcher.providers import provider_spec
from scheduler_plugin.load_watcher.providers.provider import Fetched
from scheduler_plugin.load_watcher.records import (
    DURATIONS_SECONDS,
    Metric,
    MetricType,
    NodeMetrics,
    Operator,
    Window,
)
from scheduler_plugin.state.node_report import NodeReport

RESOURCES: Final = (names.CPU, names.MEMORY)
"""What is needed of a report."""

OLDEST_SECONDS: Final = 300.0
"""A report whose sample is older says nothing of a window (KEP-61: not older than 5 minutes)."""

_NODES_PER_TURN: Final = 10  # so that other work of the event loop need not wait

_NANOS: Final = 10**9
_TYPES: Final = (MetricType.CPU, MetricType.MEMORY)
_STATISTICS: Final = {"avg": Operator.AVG, "std": Operator.STD}

Reports = Callable[[], Mapping[str, NodeReport]]
"""Newest report of each node, as of now; `state.node_metric_decoder` reads them."""


class NodeMetricProvider:
    """Reads the reports that the process keeps."""

    name = provider_spec.NODE_METRIC

    def __init__(self, reports: Reports, nodes: KnownNodes, resources: Sequence[str] = RESOURCES) -> None:
        self._reports = reports
        self._nodes = nodes
        self._places = [resources.index(name) for name in RESOURCES]
        """Where CPU and memory stand in the vectors of a report."""

    async def check(self) -> Sequence[str]:
        """Nothing can be wrong with it but that no agent reports, which every refresh tells."""
        return ()

    async def fetch(self, window: Window) -> Fetched:
        """Statistics of every node whose report is fresh enough."""
        problems: list[str] = []
        reports = self._reports()
        nodes = {}
        for count, (name, node) in enumerate(self._nodes().items(), start=1):
            if count % _NODES_PER_TURN == 0:
                await asyncio.sleep(0)
            report = reports.get(name)
            age = None if report is None or report.update_time is None else window.end - report.update_time
            if report is None or age is None or age > OLDEST_SECONDS:
                told = "no report yet" if age is None else f"the newest report is {age:.0f} s old"
                problems.append(f"node {name}: {told}, want one of the last {OLDEST_SECONDS:.0f} s")
                continue
            nodes[name] = NodeMetrics(list(_metrics(window, report, node, self._places)), {}, node.metadata)
        return Fetched(nodes, problems)

    async def is_healthy(self) -> bool:
        """Whether any agent has reported."""
        return bool(self._reports())

    async def close(self) -> None:
        """Has no connections."""


def _metrics(window: Window, report: NodeReport, node: KnownNode, places: Sequence[int]) -> Iterator[Metric]:
    capacity = (node.cpu_millis, node.memory_bytes)
    nanos = DURATIONS_SECONDS[window.duration] * _NANOS
    by_operator = {
        operator: report.aggregated[statistic, nanos]
        for statistic, operator in _STATISTICS.items()
        if (statistic, nanos) in report.aggregated
    }
    if Operator.AVG not in by_operator and report.node_usage is not None:
        by_operator[Operator.LATEST] = report.node_usage
    for operator, vector in by_operator.items():
        for kind, place, whole in zip(_TYPES, places, capacity, strict=True):
            percent = known_nodes.percent_of(vector[place], whole)
            if percent is not None:
                yield Metric(f"node {kind.lower()} usage", kind, operator, window.duration, percent)
