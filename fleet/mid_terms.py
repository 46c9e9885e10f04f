"""Origin of each term of a node's Mid resources: its source, or its key and layer, and whether a bound binds. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from api_types.kubernetes import pods
from manager.cache import store
from manager.mid_resource.explanation import Term
from manager.slo_config import explanation, strategy
from manager.slo_config.evaluation import ConfigOutcome

TermsByName = Mapping[str, Term]
"""Terms of one resource."""
NO_LAYERS: Final[Mapping[str, str]] = {}


def layers(outcome: ConfigOutcome | None, node: store.StoredNode) -> Mapping[str, str]:
    """Return the layer that sets each key of a node's strategy; empty where no configuration was read."""
    if outcome is None or outcome.configuration is None:
        return NO_LAYERS
    labels, annotations = pods.label_map(node.metadata), pods.annotation_map(node.metadata)
    chosen = strategy.node_strategy(outcome.configuration, labels, annotations)
    return {value.key: value.layer for value in explanation.explain_values(chosen.layers)}


def origin(term: Term, layer_of: Mapping[str, str]) -> str:
    """Return where a term comes from: its source, or the key with its layer; of a bound also whether it binds."""
    parts = [f"{term.key}, {layer_of[term.key]}" if term.key in layer_of else term.key or term.source]
    if term.binds is not None:
        parts.append("binds" if term.binds else "does not bind")
    return "; ".join(part for part in parts if part)
