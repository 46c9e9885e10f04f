"""Metrics of the Mid resources of each node: the target, and the terms that it follows from."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from prometheus_client import CollectorRegistry
from prometheus_client.registry import Collector

from api_types import names
from api_types.node_metric import mid_resource
from api_types.node_metric.mid_resource import Terms
from component_base.gauge_rows import GaugeRows, Row

TERMS: Final = {term.label: term.name for term in mid_resource.TERMS if term.label}
"""Value of the label `term` -> the term. What `allocated` has beyond `floor` was refused to the floor."""


class _Mid(NamedTuple):
    target: int | None
    terms: tuple[int | None, ...]
    """In the order of `TERMS`; empty without a calculation."""


class MidCollector(Collector):
    """Collector of the targets and terms of all nodes."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._nodes: dict[str, Mapping[str, _Mid]] = {}
        registry.register(self)

    def show(self, node: str, values: Mapping[str, int | None], lines: Mapping[str, Terms]) -> None:
        """Record the target of a node and its terms."""
        self._nodes[node] = {mid: _Mid(values.get(mid), _shown(lines.get(mid))) for mid in names.MID_RESOURCES}

    def forget(self, node: str) -> None:
        """Drop the series of a node."""
        self._nodes.pop(node, None)

    def collect(self) -> Iterable[GaugeRows]:
        """Make the series of all nodes."""
        nodes = list(self._nodes.items())
        for mid, name, unit, scale in (
            (names.MID_CPU, "cpu", "cores", 1000),
            (names.MID_MEMORY, "memory", "bytes", 1),
        ):
            yield GaugeRows(
                f"koord_manager_node_mid_{name}_target_{unit}",
                f"mid-{name} that the newest decision wants on a node; in shadow it is not published.",
                ["node"],
                functools.partial(_targets, nodes, mid, scale),
            )
            yield GaugeRows(
                f"koord_manager_node_mid_{name}_term_{unit}",
                f"Terms of the mid-{name} target of a node.",
                ["node", "term"],
                functools.partial(_terms, nodes, mid, scale),
            )


def _shown(line: Terms | None) -> tuple[int | None, ...]:
    return () if line is None else tuple(getattr(line, field) for field in TERMS.values())


def _targets(nodes: Sequence[tuple[str, Mapping[str, _Mid]]], mid: str, scale: int) -> Iterator[Row]:
    for node, shown in nodes:
        value = shown[mid].target
        if value is not None:
            yield (node,), value / scale


def _terms(nodes: Sequence[tuple[str, Mapping[str, _Mid]]], mid: str, scale: int) -> Iterator[Row]:
    for node, shown in nodes:
        for term, amount in zip(TERMS, shown[mid].terms, strict=False):
            if amount is not None:
                yield (node, term), amount / scale
