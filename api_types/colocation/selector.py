"""Kubernetes label selectors of `nodeConfigs`: matching, and finding selectors that claim the same node.

Source: the Kubernetes documentation on labels and selectors; the overlap test is koordinator-core 4.5's.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

import pydantic

from api_types.wire_model import WireModel

_WITH_VALUES = ("In", "NotIn")
_WITHOUT_VALUES = ("Exists", "DoesNotExist")
OPERATORS = _WITH_VALUES + _WITHOUT_VALUES
_MOST_VIRTUAL_NODES: Final = 256  # arbitrary; a selector that is written by hand is about a few
_MOST_QUESTIONS: Final = 1_000_000  # selectors asked for a virtual node: half a second, all of a thousand entries
_MOST_OVERLAPS: Final = 10_000  # arbitrary; so many have one cause


class Requirement(WireModel):
    """One demand on the value of one label."""

    model_config = pydantic.ConfigDict(strict=True, frozen=True)

    key: str = ""
    """Label the demand is about."""
    operator: str = ""
    """In, NotIn, Exists or DoesNotExist."""
    values: list[str] | None = None
    """Values of In and NotIn; empty for the others."""


class NodeSelector(WireModel):
    """A label selector: every label and every expression has to hold; an empty one matches every node."""

    model_config = pydantic.ConfigDict(strict=True, frozen=True)

    match_labels: dict[str, str] | None = None
    """Labels with exactly these values."""
    match_expressions: list[Requirement] | None = None
    """Demands that may name several values, or none."""


def is_empty(selector: NodeSelector) -> bool:
    """Whether the selector demands nothing, and so matches every node."""
    return not selector.match_labels and not selector.match_expressions


def fault(selector: NodeSelector) -> tuple[str, object, str] | None:
    """First thing that makes a selector unusable: (key path inside it, value seen, value wanted); None if fine."""
    for index, demand in enumerate(selector.match_expressions or ()):
        path = f"matchExpressions[{index}]"
        if not demand.key:
            return f"{path}.key", demand.key, "the name of a label"
        if demand.operator not in OPERATORS:
            return f"{path}.operator", demand.operator, "one of " + ", ".join(OPERATORS)
        if demand.operator in _WITH_VALUES and not demand.values:
            return f"{path}.values", demand.values, f"at least one value for the operator {demand.operator}"
        if demand.operator in _WITHOUT_VALUES and demand.values:
            return f"{path}.values", demand.values, f"no values for the operator {demand.operator}"
    return None


def matches(selector: NodeSelector | None, labels: Mapping[str, str]) -> bool:
    """Whether a node with these labels is selected. No selector, and an unusable one, select nothing."""
    if selector is None:
        return False
    for key, value in (selector.match_labels or {}).items():
        if labels.get(key) != value:
            return False
    demands = selector.match_expressions or ()
    return not demands or (fault(selector) is None and all(_holds(demand, labels) for demand in demands))


def _holds(demand: Requirement, labels: Mapping[str, str]) -> bool:
    present = demand.key in labels
    match demand.operator:
        case "Exists":
            return present
        case "DoesNotExist":
            return not present
        case "In":
            return present and labels[demand.key] in (demand.values or ())
        case _:  # NotIn is satisfied by a node without the label, as in Kubernetes
            return not present or labels[demand.key] not in (demand.values or ())


def _virtual_nodes(selector: NodeSelector) -> Iterator[dict[str, str]]:
    """Label sets the selector is about: its labels, with one value per expression in turn.

    Set i takes value i of each expression, modulo its number of values; after the least common multiple of the numbers
    they repeat. Expressions without values add no label. NotIn contributes the values it forbids, as upstream's does.
    """
    expressions = [demand for demand in selector.match_expressions or () if demand.values]
    sets = math.lcm(*(len(demand.values or ()) for demand in expressions))
    for index in range(min(sets, _MOST_VIRTUAL_NODES)):
        chosen = {demand.key: (demand.values or [])[index % len(demand.values or ())] for demand in expressions}
        yield {**(selector.match_labels or {}), **chosen}


def overlapping(selectors: Sequence[NodeSelector | None]) -> list[tuple[int, int]]:
    """Positions of each two selectors that claim the same virtual node, the earlier first; in order.

    Approximate by design: it sees contradictions in the document alone, and of a huge one the beginning. `matching`
    checks a real node.
    """
    found: set[tuple[int, int]] = set()
    asked: set[frozenset[tuple[str, str]]] = set()
    for labels in itertools.chain.from_iterable(_virtual_nodes(each) for each in selectors if each is not None):
        virtual_node = frozenset(labels.items())
        if virtual_node in asked:
            continue
        asked.add(virtual_node)
        found.update(itertools.islice(itertools.combinations(matching(selectors, labels), 2), _MOST_OVERLAPS))
        if len(asked) * len(selectors) >= _MOST_QUESTIONS or len(found) >= _MOST_OVERLAPS:
            break
    return sorted(found)


def matching(selectors: Iterable[NodeSelector | None], labels: Mapping[str, str]) -> tuple[int, ...]:
    """Positions of the selectors that match a node with these labels."""
    return tuple(position for position, selector in enumerate(selectors) if matches(selector, labels))
