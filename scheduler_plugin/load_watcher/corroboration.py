"""Corroboration: join the results of several providers (KEP-61).

The value of each node, type and statistic is the median of the providers' values; with an even number it is the higher
of the two middle ones. With two providers that is the larger value, so a node that is hot for one of them is not
filled. Values that differ by more than the tolerance are reported. A provider without a value for a node is ignored.
The result is as old as the oldest of the values.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

import msgspec

from scheduler_plugin.load_watcher.records import Metric, NodeMetrics, Window

TOLERANCE_PERCENT: Final = 10.0
"""Accepted difference in percentage points: providers sample at different times and smooth differently."""


class Corroborated(NamedTuple):
    """Joined nodes, and one line for each value on which providers disagree."""

    nodes: Mapping[str, NodeMetrics]
    disagreements: Sequence[str]


def corroborate(results: Mapping[str, Mapping[str, NodeMetrics]]) -> Corroborated:
    """Join results by provider name, in order of trust: tags, metadata and record names come from the first."""
    if len(results) == 1:
        (only,) = results.values()
        return Corroborated(only, ())
    disagreements: list[str] = []
    nodes: dict[str, NodeMetrics] = {}
    for name in {name: None for result in results.values() for name in result}:
        of_node = {provider: result[name] for provider, result in results.items() if name in result}
        metrics = _joined(name, {provider: node.metrics for provider, node in of_node.items()}, disagreements)
        delivered = {metric.type for metric in metrics}
        rejected = {kind: None for node in of_node.values() for kind in node.rejected or () if kind not in delivered}
        first = next(iter(of_node.values()))
        nodes[name] = msgspec.structs.replace(
            first, metrics=metrics, rejected=list(rejected) or msgspec.UNSET, window=_oldest(of_node.values())
        )
    return Corroborated(nodes, disagreements)


def _oldest(nodes: Iterable[NodeMetrics]) -> Window | msgspec.UnsetType:
    """Return the oldest start and end: a value that is part of the result may be that old."""
    windows = [node.window for node in nodes if node.window and node.metrics]
    if not windows:
        return msgspec.UNSET
    return Window(windows[0].duration, min(each.start for each in windows), min(each.end for each in windows))


def _joined(node: str, by_provider: Mapping[str, Sequence[Metric]], disagreements: list[str]) -> list[Metric]:
    same: dict[tuple[str, str], dict[str, Metric]] = {}
    for provider, metrics in by_provider.items():
        for metric in metrics:
            same.setdefault((metric.type, metric.operator), {})[provider] = metric
    joined = []
    for (kind, operator), by_name in same.items():
        values = [metric.value for metric in by_name.values()]
        if max(values) - min(values) > TOLERANCE_PERCENT:
            seen = ", ".join(f"{provider} {metric.value:.1f}" for provider, metric in by_name.items())
            disagreements.append(f"node {node}: {kind} {operator}: {seen}")
        chosen = statistics.median_high(values)
        joined.append(msgspec.structs.replace(next(iter(by_name.values())), value=chosen))
    return joined
