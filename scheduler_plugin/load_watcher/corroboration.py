"""Corroboration: join the results of several providers (KEP-61).

The mean and the deviation of CPU and of memory, and each other record by its name, are the median of the providers'
values; with an even number the higher of the two middle ones. With two providers that is the larger value, so a node
that is hot for one of them is not filled. A current value compares with the mean of another provider, so that all
plugins read one mean. Values that differ by more than the tolerance are reported. A provider without a value for a node
is ignored. The result is as old as the oldest of the values. Where a provider of deviations knows a node and lacks one
of its resources, or the analyser dropped it, the mean of another without one does not replace it: the node would pass
for a steady one.
"""

from __future__ import annotations

import statistics
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

import msgspec

from scheduler_plugin.load_watcher.records import BOUNDED, Metric, NodeMetrics, Statistic, Window

TOLERANCE_PERCENT: Final = 10.0
"""Accepted difference: percentage points of CPU and memory, and percent of the larger value of other types. Providers
sample at different times and smooth differently."""
_MEAN: Final = "mean"
_DEVIATION: Final = "deviation"


class Corroborated(NamedTuple):
    """Joined nodes, and one line for each value on which providers disagree."""

    nodes: Mapping[str, NodeMetrics]
    disagreements: Sequence[str]


def corroborate(results: Mapping[str, Mapping[str, NodeMetrics]]) -> Corroborated:
    """Join results by provider name, in order of trust: tags, metadata and record names come from the first."""
    if len(results) == 1:
        (only,) = results.values()
        return Corroborated(only, ())
    by_provider = {name: _deviating(node.metrics for node in result.values()) for name, result in results.items()}
    disagreements: list[str] = []
    nodes: dict[str, NodeMetrics] = {}
    for name in {name: None for result in results.values() for name in result}:
        of_node = {provider: result[name] for provider, result in results.items() if name in result}
        metrics = _joined(name, {provider: node.metrics for provider, node in of_node.items()}, disagreements)
        delivered, deviating = {metric.type for metric in metrics}, _deviating([metrics])
        without_deviation = {
            kind
            for kind in BOUNDED
            for provider, node in of_node.items()
            if kind in by_provider[provider] and all(metric.type != kind for metric in node.metrics)
        }.difference(deviating)
        metrics = [metric for metric in metrics if metric.type not in without_deviation]
        rejected = {
            kind: None
            for node in of_node.values()
            for kind in node.rejected or ()
            if kind in without_deviation or kind not in delivered
        }
        first = next(iter(of_node.values()))
        nodes[name] = msgspec.structs.replace(
            first, metrics=metrics, rejected=list(rejected) or msgspec.UNSET, window=_oldest(of_node.values())
        )
    return Corroborated(nodes, disagreements)


def _deviating(of_nodes: Iterable[Sequence[Metric]]) -> set[str]:
    """Return the types with a deviation of any node."""
    return {metric.type for metrics in of_nodes for metric in metrics if metric.operator == Statistic.STD}


def _oldest(nodes: Collection[NodeMetrics]) -> Window | msgspec.UnsetType:
    """Return the oldest start and end: a value that is part of the result may be that old."""
    windows = [node.window for node in nodes if node.window and node.metrics]
    windows = windows or [node.window for node in nodes if node.window]
    if not windows:
        return msgspec.UNSET
    return Window(windows[0].duration, min(window.start for window in windows), min(window.end for window in windows))


class _Key(NamedTuple):
    """Identity of a value in the answers of several providers."""

    type: str
    statistic: str
    """Mean or deviation of CPU and memory, where a current value (Latest) counts as a mean; the operator of others."""
    name: str = ""
    """Of other types the name of the record, because a node has many of each."""
    place: int = 0
    """Number of records of the same name before this one, such as one for each disk."""


def _keyed(metrics: Sequence[Metric]) -> dict[_Key, Metric]:
    by_key: dict[_Key, Metric] = {}
    for metric in metrics:
        if metric.type in BOUNDED:
            key = _Key(metric.type, _DEVIATION if metric.operator == Statistic.STD else _MEAN)
            if key not in by_key or metric.operator == Statistic.AVG or by_key[key].operator != Statistic.AVG:
                by_key[key] = metric
            continue
        key = _Key(metric.type, metric.operator, metric.name)
        while key in by_key:
            key = key._replace(place=key.place + 1)
        by_key[key] = metric
    return by_key


def _joined(node: str, by_provider: Mapping[str, Sequence[Metric]], disagreements: list[str]) -> list[Metric]:
    same: dict[_Key, dict[str, Metric]] = {}
    for provider, metrics in by_provider.items():
        for key, metric in _keyed(metrics).items():
            same.setdefault(key, {})[provider] = metric
    joined = []
    for key, by_name in same.items():
        values = [metric.value for metric in by_name.values()]
        is_percent = key.type in BOUNDED
        accepted = TOLERANCE_PERCENT if is_percent else max(map(abs, values)) * TOLERANCE_PERCENT / 100.0
        if max(values) - min(values) > accepted:
            values_text = ", ".join(
                f"{provider} {metric.value:.1f} ({metric.operator or 'no operator'})"
                for provider, metric in by_name.items()
            )
            disagreements.append(f"node {node}: {key.type} {key.name or key.statistic}: {values_text}")
        of_window = [metric for metric in by_name.values() if metric.operator == Statistic.AVG]
        first = next(iter(of_window or by_name.values()))
        joined.append(msgspec.structs.replace(first, value=statistics.median_high(values)))
    return joined
