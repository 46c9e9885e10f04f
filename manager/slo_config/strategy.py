"""Configuration and one node's labels and annotations -> the strategy that holds for this node. Pure.

Layers, lowest first: defaults, preset, cluster strategy, first `nodeConfigs` entry that matches, the node's annotation,
its labels. Each was validated where it was read; a layer with an error is left out and reported, the ones below it
stay in force. Source: design 3.2, koordinator-core 4.3.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import ROUND_HALF_UP, Decimal
from typing import Final, NamedTuple

from api_types import colocation_document, names, node_selector
from api_types import slo_controller_config as slo
from api_types.config_problem import Effect, Problem
from api_types.node_selector import NodeSelector

RATIO_LABELS: Final[Mapping[str, str]] = {
    names.LABEL_CPU_RECLAIM_RATIO: "cpu_reclaim_threshold_percent",
    names.LABEL_MEMORY_RECLAIM_RATIO: "memory_reclaim_threshold_percent",
    names.LABEL_MID_STATIC_CPU_RESERVED_RATIO: "mid_static_cpu_reserved_percent",
    names.LABEL_MID_STATIC_MEMORY_RESERVED_RATIO: "mid_static_memory_reserved_percent",
}
"""Label with a decimal ratio -> the key it overrides, in percent."""

_DECIMAL: Final = re.compile(r"\+?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d{1,3})?", re.ASCII)
_LARGEST_RATIO: Final = Decimal(10**6)  # arbitrary, far beyond sense; keeps the percent within every integer type


class Layer(NamedTuple):
    """Keys that one source sets; `name` is for people."""

    name: str
    strategy: slo.ColocationStrategy


@dataclass(frozen=True, eq=False)
class NodeStrategy:
    """What holds for one node; nodes that differ in nothing share one, so it may serve as a cache key."""

    strategy: slo.ColocationStrategy
    """Every key, with defaults."""
    enabled: bool
    """Whether the node takes part: both the cluster and the node say so (koordinator-core 4.7)."""
    layers: tuple[Layer, ...]
    """Lowest first."""
    problems: tuple[tuple[str, Problem], ...] = ()
    """What is wrong with the node's annotation and labels, and where it stands."""


class Entry(NamedTuple):
    """A `nodeConfigs` entry with the cluster's keys below it."""

    name: str
    selector: NodeSelector | None
    strategy: slo.ColocationStrategy


@dataclass(frozen=True)
class Configuration:
    """A document that was accepted. Two are equal where they mean the same, however they are written."""

    cluster: slo.ColocationStrategy
    entries: tuple[Entry, ...] = ()
    document: slo.ColocationConfig = field(default_factory=slo.ColocationConfig, compare=False)


def configuration(document: slo.ColocationConfig) -> Configuration:
    """What a document means: defaults and preset filled in, each entry on top of the cluster strategy."""
    own = _own_keys(document)
    return Configuration(
        cluster=_filled_in(own),
        entries=tuple(
            Entry(entry.name or "", entry.node_selector, _filled_in(own, _own_keys(entry)))
            for entry in document.node_configs or ()
        ),
        document=document,
    )


def _own_keys(layer: slo.ColocationStrategy) -> slo.ColocationStrategy:
    """The strategy keys of a document or an entry, without what else stands beside them."""
    return slo.merge(layer)


def _base(overlay: slo.ColocationStrategy) -> list[Layer]:
    preset = overlay.preset
    below = [Layer("defaults", slo.DEFAULTS)]
    return below if preset is None else [*below, Layer(f"preset {preset}", slo.PRESETS[preset])]


def _filled_in(*layers: slo.ColocationStrategy) -> slo.ColocationStrategy:
    overlay = slo.merge(*layers)
    return slo.merge(*(layer.strategy for layer in _base(overlay)), overlay)


def percent_of_ratio(text: str) -> int | None:
    """Percent of a decimal ratio, rounded half-up: "0.29" -> 29. None where it is no ratio, or negative."""
    if not _DECIMAL.fullmatch(text):
        return None
    ratio = Decimal(text)
    if ratio > _LARGEST_RATIO:
        return None
    return int((ratio * 100).to_integral_value(ROUND_HALF_UP))


def from_labels(labels: Mapping[str, str]) -> tuple[slo.ColocationStrategy, tuple[Problem, ...]]:
    """Overrides that a node's labels carry, and labels that carry none though they are named so."""
    values: dict[str, int] = {}
    problems = []
    for label, key in RATIO_LABELS.items():
        if label not in labels:
            continue
        percent = percent_of_ratio(labels[label])
        if percent is None:
            wanted = "a ratio such as 0.65, 0 or more"
            problems.append(Problem((label,), repr(labels[label]), wanted, Effect.LAYER_IGNORED))
        else:
            values[key] = percent
    return slo.ColocationStrategy.model_validate(values), tuple(problems)


def overlays(
    document: slo.ColocationConfig, labels: Mapping[str, str], annotations: Mapping[str, str]
) -> tuple[list[Layer], list[tuple[str, Problem]]]:
    """Layers above defaults and preset, lowest first, and what is wrong with the node's own ones."""
    layers = [Layer("cluster strategy", _own_keys(document))]
    problems: list[tuple[str, Problem]] = []
    position = matching_entry(document, labels)
    if position is not None:
        entry = (document.node_configs or [])[position]
        layers.append(Layer(f"nodeConfigs[{position}] {entry.name or ''}".rstrip(), _own_keys(entry)))
    text = annotations.get(names.ANNOTATION_COLOCATION_STRATEGY)
    if text is not None:
        where = f"annotation {names.ANNOTATION_COLOCATION_STRATEGY}"
        strategy, found = colocation_document.read_strategy(text)
        problems += ((where, problem) for problem in found)
        if strategy is not None:
            layers.append(Layer(where, strategy))
    overrides, found = from_labels(labels)
    problems += (("labels", problem) for problem in found)
    if overrides.model_fields_set:
        layers.append(Layer("labels", overrides))
    return layers, problems


def matching_entry(document: slo.ColocationConfig, labels: Mapping[str, str]) -> int | None:
    """Position of the first entry whose selector matches, None where none does."""
    for position, entry in enumerate(document.node_configs or ()):
        if node_selector.matches(entry.node_selector, labels):
            return position
    return None


def node_strategy(configured: Configuration, labels: Mapping[str, str], annotations: Mapping[str, str]) -> NodeStrategy:
    """Put the layers on top of one another."""
    above, problems = overlays(configured.document, labels, annotations)
    overlay = slo.merge(*(layer.strategy for layer in above))
    layers = (*_base(overlay), *above)
    strategy = slo.merge(*(layer.strategy for layer in layers))
    enabled = bool(configured.cluster.enable and strategy.enable)
    return NodeStrategy(strategy, enabled, layers, tuple(problems))


class Strategies:
    """Strategies under one configuration; each combination of what a node can differ in is worked out once."""

    def __init__(self, configured: Configuration) -> None:
        self.configuration = configured
        self._known: dict[tuple[object, ...], NodeStrategy] = {}

    def of(self, labels: Mapping[str, str], annotations: Mapping[str, str]) -> NodeStrategy:
        """Strategy of a node with these labels and annotations."""
        key = (
            matching_entry(self.configuration.document, labels),
            annotations.get(names.ANNOTATION_COLOCATION_STRATEGY),
            *(labels.get(label) for label in RATIO_LABELS),
        )
        if key not in self._known:
            self._known[key] = node_strategy(self.configuration, labels, annotations)
        return self._known[key]
