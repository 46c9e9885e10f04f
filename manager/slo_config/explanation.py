"""Explain the strategy of a node, with the layer of each value, as text and as JSON. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from api_types.colocation import controller_config as slo
from manager.slo_config import evaluation
from manager.slo_config.strategy import Layer, NodeStrategy, node_strategy

NOT_SET: Final = "not set"
_ABSENT: Final = object()


class Value(NamedTuple):
    """One key of the strategy in force."""

    key: str
    value: Any
    """None where no layer sets it."""
    layer: str
    """Name of the layer that sets it; empty where no layer does."""
    below: tuple[tuple[str, Any], ...]
    """(layer, value) of the lower layers that set it, the nearest first."""
    effective: bool
    """Whether this project uses the key."""


@dataclass(frozen=True)
class StrategyExplanation:
    """Explanation of a strategy; `strategy` is None where no configuration is valid."""

    node: str
    source: str
    """Source of the document, as text."""
    outcome: evaluation.ConfigOutcome
    kept_in: str
    """ConfigMap of the last valid document."""
    strategy: NodeStrategy | None
    values: tuple[Value, ...]
    spec_differs: tuple[str, ...] | None = None
    """Key paths in which the NodeMetric's spec differs from this strategy; None where it was not read."""
    preview: bool = False
    """Whether the document is a draft, not the one of the cluster."""


def explain(
    node: str,
    labels: Mapping[str, str],
    annotations: Mapping[str, str],
    outcome: evaluation.ConfigOutcome,
    *,
    source: str,
    kept_in: str,
) -> StrategyExplanation:
    """Explain a node with these labels and annotations under an evaluated document."""
    configured = outcome.configuration
    strategy = node_strategy(configured, labels, annotations) if configured else None
    return StrategyExplanation(
        node, source, outcome, kept_in, strategy, tuple(explain_values(strategy.layers)) if strategy else ()
    )


def explain_values(layers: tuple[Layer, ...]) -> Iterator[Value]:
    """Yield each key with its value and the layer that sets it, in the order of the model."""
    wires = [(layer.name, layer.strategy.to_wire()) for layer in reversed(layers)]
    for key in slo.keys(slo.ColocationStrategy):
        setters = [(name, value) for name, wire in wires if (value := _at(wire, key.path)) is not _ABSENT]
        (layer, value), *below = setters or [("", None)]
        if isinstance(value, dict):  # merged by key, from all of them
            value = slo.merge(*(layer.strategy for layer in layers)).to_wire()[key.path]
            layer = ", ".join(name for name, _ in setters)
        yield Value(key.path, value, layer, tuple(below), key.unused is None)


def _at(wire: Mapping[str, Any], path: str) -> Any:
    at: Any = wire
    for part in path.split("."):
        if not isinstance(at, Mapping) or part not in at:
            return _ABSENT
        at = at[part]
    return at


def participation(explained: StrategyExplanation) -> str:
    """Return whether the node takes part in colocation, and the value that decides it."""
    strategy, configured = explained.strategy, explained.outcome.configuration
    if strategy is None or configured is None:
        return "undecided: no valid configuration exists"
    enable = next(value for value in explained.values if value.key == "enable")
    if strategy.enabled:
        return "takes part in colocation"
    if not configured.cluster.enable:
        beside = f"; {enable.layer} cannot switch it on alone" if enable.value else ""
        return f"takes no part in colocation: enable is not true for the cluster{beside}"
    return f"takes no part in colocation: enable is false by {enable.layer}"


def head(explained: StrategyExplanation) -> Iterator[str]:
    """Format everything but the values as lines of text."""
    subject = f"node {explained.node}" if explained.node else "a node without labels and annotations"
    yield f"{subject}: {participation(explained)}"
    yield f"{explained.source}: {evaluation.summary(explained.outcome, kept_in=explained.kept_in)}"
    unused = explained.outcome.state is not evaluation.State.APPLIED
    yield from (f"  {problem.with_effect()}" for problem in explained.outcome.problems if unused)
    if explained.strategy is None:
        return
    yield ""
    yield "layers, lowest first; a higher layer overrides a lower one"
    for layer in explained.strategy.layers:
        yield f"  {layer.name}" + (": IGNORED" if layer.refused else "")
        yield from (f"      {problem.with_effect()}" for problem in layer.problems)
    for position in explained.strategy.matching[1:]:
        first = explained.strategy.matching[0]
        yield f"  nodeConfigs[{position}] matches as well and is not used: nodeConfigs[{first}] comes first"


def comparison(explained: StrategyExplanation) -> str:
    """Compare the strategy with the NodeMetric's spec; empty where it was not read."""
    differs = explained.spec_differs
    if differs is None:
        return ""
    if explained.preview:
        changes = ", ".join(differs) or "nothing"
        return f"applied, the document would change in the spec of the NodeMetric: {changes}"
    if not differs:
        return "the spec of the NodeMetric is the same"
    return (
        f"the spec of the NodeMetric differs in {', '.join(differs)}: "
        "check that a manager runs and that the CRD has these fields"
    )


def value_rows(values: tuple[Value, ...]) -> Iterator[tuple[str, str, str]]:
    """Yield key, value and layer, with the value below that it replaces, for each key that is of interest."""
    for value in values:
        if not value.effective and value.layer in ("", "defaults"):
            continue  # a default of a key without effect is of no interest
        origin = value.layer if value.effective else f"{value.layer} (no effect here)"
        if value.below and value.below[0][1] != value.value:
            origin += f", instead of {_shown(value.below[0][1])} ({value.below[0][0]})"
        yield value.key, _shown(value.value), origin


def _shown(value: Any) -> str:
    if value is None:
        return NOT_SET
    if isinstance(value, float):
        return f"{value:g}"
    return value if isinstance(value, str) and value else json.dumps(value)
