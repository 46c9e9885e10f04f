"""Explain the strategy of a node, with the layer of each value, as text and as JSON. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from api_types.colocation import controller_config as slo
from manager.slo_config import condition, evaluation
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
class Explanation:
    """Explanation of a strategy; `strategy` is None where no configuration is valid."""

    node: str
    source: str
    """Source of the document, as text."""
    outcome: evaluation.Outcome
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
    outcome: evaluation.Outcome,
    *,
    source: str,
    kept_in: str,
) -> Explanation:
    """Explain a node with these labels and annotations under an evaluated document."""
    configured = outcome.configuration
    strategy = node_strategy(configured, labels, annotations) if configured else None
    return Explanation(node, source, outcome, kept_in, strategy, tuple(values_of(strategy.layers)) if strategy else ())


def values_of(layers: tuple[Layer, ...]) -> Iterator[Value]:
    """Yield each key with its value and the layer that sets it, in the order of the model."""
    wires = [(layer.name, layer.strategy.to_wire()) for layer in reversed(layers)]
    for key in slo.keys(slo.ColocationStrategy):
        found = [(name, value) for name, wire in wires if (value := _at(wire, key.path)) is not _ABSENT]
        (layer, value), *below = found or [("", None)]
        if isinstance(value, dict):  # merged by key, from all of them
            value = slo.merge(*(each.strategy for each in layers)).to_wire()[key.path]
            layer = ", ".join(name for name, _ in found)
        yield Value(key.path, value, layer, tuple(below), key.unused is None)


def _at(wire: Mapping[str, Any], path: str) -> Any:
    found: Any = wire
    for part in path.split("."):
        if not isinstance(found, Mapping) or part not in found:
            return _ABSENT
        found = found[part]
    return found


def participation(found: Explanation) -> str:
    """Return whether the node takes part in colocation, and the value that decides it."""
    strategy, configured = found.strategy, found.outcome.configuration
    if strategy is None or configured is None:
        return "undecided: no valid configuration exists"
    own = next(value for value in found.values if value.key == "enable")
    if strategy.enabled:
        return "takes part in colocation"
    if not configured.cluster.enable:
        beside = f"; {own.layer} cannot switch it on alone" if own.value else ""
        return f"takes no part in colocation: enable is not true for the cluster{beside}"
    return f"takes no part in colocation: enable is false by {own.layer}"


def head(found: Explanation) -> Iterator[str]:
    """Format everything but the values as lines of text."""
    subject = f"node {found.node}" if found.node else "a node without labels and annotations"
    yield f"{subject}: {participation(found)}"
    yield f"{found.source}: {condition.summary(found.outcome, kept_in=found.kept_in)}"
    refused = found.outcome.state is evaluation.State.REFUSED
    yield from (f"  {problem.with_effect()}" for problem in found.outcome.problems if refused)
    if found.strategy is None:
        return
    yield ""
    yield "layers, lowest first; a higher layer overrides a lower one"
    for layer in found.strategy.layers:
        yield f"  {layer.name}" + (": IGNORED" if layer.refused else "")
        yield from (f"      {problem.with_effect()}" for problem in layer.problems)
    for position in found.strategy.matching[1:]:
        first = found.strategy.matching[0]
        yield f"  nodeConfigs[{position}] matches as well and is not used: nodeConfigs[{first}] comes first"


def comparison(found: Explanation) -> str:
    """Compare the strategy with the NodeMetric's spec; empty where it was not read."""
    differs = found.spec_differs
    if differs is None:
        return ""
    if found.preview:
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
    for each in values:
        if not each.effective and each.layer in ("", "defaults"):
            continue  # a default of a key without effect is of no interest
        origin = each.layer if each.effective else f"{each.layer} (no effect here)"
        if each.below and each.below[0][1] != each.value:
            origin += f", instead of {_shown(each.below[0][1])} ({each.below[0][0]})"
        yield each.key, _shown(each.value), origin


def _shown(value: Any) -> str:
    if value is None:
        return NOT_SET
    if isinstance(value, float):
        return f"{value:g}"
    return value if isinstance(value, str) and value else json.dumps(value)


def as_json(found: Explanation) -> dict[str, Any]:
    """Return the explanation as an object for JSON."""
    strategy = found.strategy
    return {
        "node": found.node,
        "enabled": strategy.enabled if strategy else None,
        "summary": participation(found),
        "document": {
            "source": found.source,
            "state": found.outcome.state.value,
            "reason": condition.reason(found.outcome),
            "problems": [problem.with_effect() for problem in found.outcome.problems],
        },
        "layers": [
            {
                "name": layer.name,
                "ignored": layer.refused,
                "problems": [problem.with_effect() for problem in layer.problems],
                "strategy": layer.strategy.to_wire(),
            }
            for layer in (strategy.layers if strategy else ())
        ],
        "nodeMetricSpecDiffers": None if found.spec_differs is None else list(found.spec_differs),
        "matchingNodeConfigs": list(strategy.matching) if strategy else [],
        "values": {
            each.key: {"value": each.value, "from": each.layer or None, "effective": each.effective}
            for each in found.values
        },
    }
