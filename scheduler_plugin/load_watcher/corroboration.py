"""Several providers, one answer (G7).

For each node, type and operator the middle of what the providers say is taken, of an even number the upper middle:
with two providers that is the larger one, because a node that seems hot to one of them is not to be filled. What
differs by more than the tolerance is told. A provider that says nothing about a node takes nothing away.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import msgspec

from scheduler_plugin.load_watcher.records import Metric, NodeMetrics

TOLERANCE_PERCENT: Final = 10.0
"""Points of utilisation: providers sample at other moments and smooth differently."""


class Corroborated(NamedTuple):
    """The common answer, and one line for each value on which providers disagree."""

    nodes: Mapping[str, NodeMetrics]
    disagreements: Sequence[str]


def corroborate(answers: Mapping[str, Mapping[str, NodeMetrics]]) -> Corroborated:
    """Join answers by provider name, in order of trust: tags, metadata and record names come from the first."""
    if len(answers) == 1:
        (only,) = answers.values()
        return Corroborated(only, ())
    disagreements: list[str] = []
    nodes: dict[str, NodeMetrics] = {}
    for name in {name: None for answer in answers.values() for name in answer}:
        of_node = {provider: answer[name] for provider, answer in answers.items() if name in answer}
        metrics = _joined(name, {provider: node.metrics for provider, node in of_node.items()}, disagreements)
        nodes[name] = msgspec.structs.replace(next(iter(of_node.values())), metrics=metrics)
    return Corroborated(nodes, disagreements)


def _joined(node: str, by_provider: Mapping[str, Sequence[Metric]], disagreements: list[str]) -> list[Metric]:
    same: dict[tuple[str, str], dict[str, Metric]] = {}
    for provider, metrics in by_provider.items():
        for metric in metrics:
            same.setdefault((metric.type, metric.operator), {})[provider] = metric
    joined = []
    for (kind, operator), by_name in same.items():
        values = [metric.value for metric in by_name.values()]
        if max(values) - min(values) > TOLERANCE_PERCENT:
            told = ", ".join(f"{provider} {metric.value:.1f}" for provider, metric in by_name.items())
            disagreements.append(f"node {node}: {kind} {operator}: {told}")
        chosen = statistics.median_high(values)
        joined.append(msgspec.structs.replace(next(iter(by_name.values())), value=chosen))
    return joined
