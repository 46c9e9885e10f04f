"""Origin of each term of a node's Mid resources: its source, or its key and layer, and whether a bound binds. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from api_types.kubernetes import pods
from manager.cache import store
from manager.mid_resource.explanation import Term
from manager.slo_config import explanation, strategy
from manager.slo_config.evaluation import Outcome

Terms = Mapping[str, Term]
"""Terms of one resource, by name."""
NO_LAYERS: Final[Mapping[str, str]] = {}
_OF_KEYS: Final = {
    "static_percent": "static_percent",
    "reclaim_ratio_percent": "reclaim_ratio_percent",
    "cap": "threshold_percent",
    "unallocated_share": "unallocated_percent",
    "floor": "floor",
    "rise_limit": "rise_limit",
}
"""Terms that a key of the configuration sets, and the term whose source is that key."""


def layers(outcome: Outcome | None, node: store.Node) -> Mapping[str, str]:
    """Return the layer that sets each key of a node's strategy; empty where no configuration was read."""
    if outcome is None or outcome.configuration is None:
        return NO_LAYERS
    labels, annotations = pods.labels_of(node.metadata), pods.annotations_of(node.metadata)
    of_node = strategy.node_strategy(outcome.configuration, labels, annotations)
    return {value.key: value.layer for value in explanation.explain_values(of_node.layers)}


def key(term: Term) -> str:
    """Return the key that sets a term; the last part of its source."""
    return term.source.rpartition(".")[2]


def origin(name: str, terms: Terms, layer_of: Mapping[str, str]) -> str:
    """Return where a term comes from: its source, or the key with its layer; of a bound also whether it binds."""
    by_key = "static_percent" if name == "reclaimable" and "static_percent" in terms else _OF_KEYS.get(name)
    parts = [terms[name].source]
    if by_key is not None:
        found = key(terms[by_key]) if by_key in terms else ""
        parts = [", ".join(part for part in (found, layer_of.get(found, "")) if part)]
    bound = _binds(name, terms)
    if bound is not None:
        parts.append("binds" if bound else "does not bind")
    return "; ".join(part for part in parts if part)


def _binds(name: str, terms: Terms) -> bool | None:
    """Check whether a bound changes the result; None for a term that is no bound."""

    def value(of: str) -> int:
        return terms[of].value if of in terms else 0

    match name:
        case "cap":
            return value("cap") < value("reclaimable")
        case "unused":
            return value("unused") < min(value("reclaimable"), value("cap")) + value("unallocated_share")
        case "floor":
            return value("floor") > value("calculated")
        case "rise_limit":
            return True  # it is a term only where it does
    return None
