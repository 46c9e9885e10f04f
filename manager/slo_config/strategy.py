"""Compute the strategy of a node from the configuration and the node's labels and annotations. Pure.

Layers, lowest first: defaults, preset, cluster strategy, a label of nodes that run no agent, first `nodeConfigs` entry
that matches, the node's annotation, its labels. Each was validated where it was read; a layer with an error is left out
and reported, the layers below it stay in force.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import re
import weakref
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from decimal import ROUND_HALF_UP, Decimal
from typing import Final, NamedTuple, TypeVar

from api_types import names
from api_types.colocation import advice, presets
from api_types.colocation import controller_config as slo
from api_types.colocation import document as colocation_document
from api_types.colocation import problem as config_problem
from api_types.colocation import selector as node_selector
from api_types.colocation.problem import Effect, Problem
from api_types.colocation.selector import NodeSelector
from api_types.kubernetes import pods
from api_types.wire_model import camel_case

RATIO_LABELS: Final[Mapping[str, str]] = {
    names.LABEL_CPU_RECLAIM_RATIO: "cpu_reclaim_threshold_percent",
    names.LABEL_MEMORY_RECLAIM_RATIO: "memory_reclaim_threshold_percent",
    names.LABEL_MID_STATIC_CPU_RESERVED_RATIO: "mid_static_cpu_reserved_percent",
    names.LABEL_MID_STATIC_MEMORY_RESERVED_RATIO: "mid_static_memory_reserved_percent",
}
"""The key, in percent, that each label with a decimal ratio overrides."""

_DECIMAL: Final = re.compile(r"\+?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d{1,3})?", re.ASCII)
MOST_KNOWN: Final = 256
"""Ways in which nodes differ that are kept at a time: a few pools in practice; annotations may differ on each node."""
_LARGEST_RATIO: Final = Decimal(
    10**6
)  # arbitrary, far beyond any sensible ratio; keeps the percent within every integer type


@dataclass(frozen=True)
class Layer:
    """Keys that one source sets, none where it was refused; `name` is for messages."""

    name: str
    strategy: slo.ColocationStrategy
    problems: tuple[Problem, ...] = ()

    @property
    def refused(self) -> bool:
        """Check whether the source is left out because of its problems."""
        return config_problem.refuses(self.problems)


@dataclass(frozen=True, eq=False)
class NodeStrategy:
    """Strategy of one node; nodes that do not differ share one object, so it may serve as a cache key."""

    strategy: slo.ColocationStrategy
    """Every key, with defaults."""
    enabled: bool
    """Whether the node takes part: colocation is enabled for the cluster and for the node."""
    layers: tuple[Layer, ...]
    """Lowest first, refused ones among them."""
    problems: tuple[tuple[str, Problem], ...] = ()
    """Problems of the node's annotation and labels, each with its place."""
    emergency: slo.MidEmergency = "none"
    """`midEmergency` of the cluster."""
    matching: tuple[int, ...] = ()
    """Positions of the `nodeConfigs` entries that match; only the first one is used."""


_Result = TypeVar("_Result")


def once_per_strategy(derive: Callable[[NodeStrategy], _Result]) -> Callable[[NodeStrategy], _Result]:
    """Call a function once for each strategy, and keep the result for as long as the strategy is in use."""
    results: weakref.WeakKeyDictionary[NodeStrategy, _Result] = weakref.WeakKeyDictionary()

    @functools.wraps(derive)
    def derived(strategy: NodeStrategy) -> _Result:
        if strategy not in results:
            results[strategy] = derive(strategy)
        return results[strategy]

    return derived


class Entry(NamedTuple):
    """A `nodeConfigs` entry with the cluster's keys below it."""

    name: str
    selector: NodeSelector | None
    strategy: slo.ColocationStrategy


@dataclass(frozen=True)
class Configuration:
    """An accepted document. Two are equal where they have the same effect, however they are written."""

    cluster: slo.ColocationStrategy
    entries: tuple[Entry, ...] = ()
    document: slo.ColocationConfig = field(default_factory=slo.ColocationConfig, compare=False)
    problems: tuple[Problem, ...] = field(default=(), compare=False)
    """Problems of the document, none of which refuses the whole document."""
    emergency: slo.MidEmergency = "none"
    evictions_per_minute: int | None = None
    """Of the whole cluster; None for the default, which grows with the number of nodes."""
    empty_nodes_at_once: int | None = None
    """The same for the nodes that only Mid pods keep."""

    @property
    def longest_report_interval_seconds(self) -> int:
        """Return the longest interval of reports that the cluster strategy or an entry requests."""
        strategies = (self.cluster, *(entry.strategy for entry in self.entries))
        return max(strategy.metric_report_interval_seconds or 0 for strategy in strategies)


def configuration(document: slo.ColocationConfig, problems: tuple[Problem, ...] = ()) -> Configuration:
    """Resolve a document: fill in defaults and preset, and merge each entry over the cluster strategy."""
    cluster = slo.merge(document)  # without its other keys
    return Configuration(
        cluster=_filled_in(cluster),
        entries=tuple(
            Entry(entry.name or "", entry.node_selector, _filled_in(cluster, slo.merge(entry)))
            for entry in document.node_configs or ()
        ),
        emergency=document.mid_emergency or "none",
        evictions_per_minute=document.mid_eviction.cluster_per_minute if document.mid_eviction else None,
        empty_nodes_at_once=document.mid_eviction.empty_nodes_at_once if document.mid_eviction else None,
        document=document,
        problems=problems,
    )


def _base(overlay: slo.ColocationStrategy) -> list[Layer]:
    preset = overlay.preset
    below = [Layer("defaults", slo.DEFAULTS)]
    return below if preset is None else [*below, Layer(f"preset {preset}", presets.PRESETS[preset])]


def _filled_in(*layers: slo.ColocationStrategy) -> slo.ColocationStrategy:
    overlay = slo.merge(*layers)
    return slo.merge(*(layer.strategy for layer in _base(overlay)), overlay)


def percent_of_ratio(text: str) -> int | None:
    """Parse a decimal ratio into percent, rounded half-up: "0.29" -> 29. None where it is invalid or negative."""
    if not _DECIMAL.fullmatch(text):
        return None
    ratio = Decimal(text)
    if ratio > _LARGEST_RATIO:
        return None
    return int((ratio * 100).to_integral_value(ROUND_HALF_UP))


def _label_layer(label: str, text: str) -> Layer:
    field_name = RATIO_LABELS[label]
    percent = percent_of_ratio(text)
    if percent is None:
        expected = "a ratio such as 0.65, 0 or more"
        problem = Problem((camel_case(field_name),), config_problem.quoted(text), expected, Effect.LAYER_IGNORED)
        return Layer(f"label {label}", slo.ColocationStrategy(), (problem,))
    strategy = slo.ColocationStrategy.model_validate({field_name: percent})
    return Layer(f"label {label}", strategy, tuple(advice.strategy_advice(strategy)))


def node_layers(labels: Mapping[str, str], annotations: Mapping[str, str]) -> list[Layer]:
    """Return the layers of a node's own annotation and labels, lowest first."""
    text = annotations.get(names.ANNOTATION_COLOCATION_STRATEGY)
    of_labels = [_label_layer(label, labels[label]) for label in RATIO_LABELS if label in labels]
    if text is None:
        return of_labels
    strategy, problems = colocation_document.read_strategy(text)
    name = f"annotation {names.ANNOTATION_COLOCATION_STRATEGY}"
    return [Layer(name, strategy or slo.ColocationStrategy(), problems), *of_labels]


def _configured_layers(configured: Configuration, labels: Mapping[str, str]) -> list[Layer]:
    of_cluster = tuple(problem for problem in configured.problems if problem.path[:1] != ("nodeConfigs",))
    off = slo.ColocationStrategy.model_validate({"enable": False})
    layers = [Layer("cluster strategy", slo.merge(configured.document), of_cluster)]
    layers += [
        Layer(f"label {key}={text}", off)
        for key, text in names.LABELS_WITHOUT_DAEMON_SETS.items()
        if labels.get(key) == text
    ]
    for position in matching_entries(configured.document, labels)[:1]:
        entry = (configured.document.node_configs or [])[position]
        problems = tuple(problem for problem in configured.problems if problem.path[:2] == ("nodeConfigs", position))
        layers.append(Layer(f"nodeConfigs[{position}] {entry.name or ''}".rstrip(), slo.merge(entry), problems))
    return layers


def matching_entries(document: slo.ColocationConfig, labels: Mapping[str, str]) -> tuple[int, ...]:
    """Return the positions of the entries whose selector matches; only the first one is used."""
    return node_selector.matching((entry.node_selector for entry in document.node_configs or ()), labels)


def node_strategy(configured: Configuration, labels: Mapping[str, str], annotations: Mapping[str, str]) -> NodeStrategy:
    """Merge the layers."""
    of_node = node_layers(labels, annotations)
    above = [*_configured_layers(configured, labels), *of_node]
    layers = (*_base(slo.merge(*(layer.strategy for layer in above))), *above)
    strategy = slo.merge(*(layer.strategy for layer in layers))
    return NodeStrategy(
        strategy,
        enabled=bool(configured.cluster.enable and strategy.enable),
        layers=layers,
        problems=tuple((layer.name, problem) for layer in of_node for problem in layer.problems),
        emergency=configured.emergency,
        matching=matching_entries(configured.document, labels),
    )


@functools.cache
def unconfigured() -> NodeStrategy:
    """Return the strategy of a node while no configuration was read: enabled, with every key at its default."""
    enabled = slo.ColocationConfig.model_validate({"enable": True})
    return node_strategy(configuration(enabled), {}, {})


class Strategies:
    """Strategies under one configuration; the newest combinations of labels and annotation are kept, merged."""

    def __init__(self, configured: Configuration) -> None:
        self.configuration = configured
        self._known: OrderedDict[tuple[object, ...], NodeStrategy] = OrderedDict()
        """Least recently used first; the key has a digest of the annotation, not its text."""

    def merged(self, labels: Mapping[str, str], annotations: Mapping[str, str]) -> NodeStrategy:
        """Return the strategy of a node with these labels and annotations, without what no controller reads."""
        text = annotations.get(names.ANNOTATION_COLOCATION_STRATEGY)  # all that are too long to be decoded are the same
        key = (
            matching_entries(self.configuration.document, labels),
            text and (b"" if pods.is_too_long(text) else hashlib.sha256(text.encode(errors="replace")).digest()),
            *(labels.get(label) for label in (*RATIO_LABELS, *names.LABELS_WITHOUT_DAEMON_SETS)),
        )
        merged = self._known.pop(key, None)
        if merged is None:
            whole = node_strategy(self.configuration, labels, annotations)
            keys = whole.strategy.model_copy(update={"extensions": None})
            merged = dataclasses.replace(whole, strategy=keys, layers=())
            if len(self._known) >= MOST_KNOWN:
                self._known.popitem(last=False)
        self._known[key] = merged
        return merged


def mid_colocation_policy(node: NodeStrategy) -> slo.MidColocationPolicy:
    """Return the keys that Mid resources are calculated from: the manager and the scheduler calculate by the same ones.

    Memory in use that includes the page cache is no shortage.
    """
    strategy = node.strategy
    fields = {name: getattr(strategy, name) for name in slo.MidColocationPolicy.model_fields}
    if strategy.metric_memory_collect_policy == slo.WITH_PAGE_CACHE and strategy.mid_eviction is not None:
        never = {"memory_threshold_percent": slo.NEVER_PERCENT}
        fields["mid_eviction"] = strategy.mid_eviction.model_copy(update=never)
    return slo.MidColocationPolicy(**{**fields, "enable": node.enabled})
