"""Match the label selectors of `nodeConfigs`, and find selectors that match the same node.

The rules are those of the Kubernetes documentation on labels and selectors; the overlap test is that of Koordinator's
webhook.
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
_MOST_VIRTUAL_NODES: Final = 256  # arbitrary; a selector written by hand has few values
_MOST_MATCHES: Final = (
    1_000_000  # selectors matched against a virtual node: half a second, enough for a thousand entries
)
_MOST_OVERLAPS: Final = 10_000  # arbitrary; so many have the same cause


class Requirement(WireModel):
    """One requirement on the value of one label."""

    model_config = pydantic.ConfigDict(strict=True, frozen=True)

    key: str = ""
    """Label of the requirement."""
    operator: str = ""
    """In, NotIn, Exists or DoesNotExist."""
    values: list[str] | None = None
    """Values of In and NotIn; empty for the others."""


class NodeSelector(WireModel):
    """A label selector: every label and every expression must match; an empty selector matches every node."""

    model_config = pydantic.ConfigDict(strict=True, frozen=True)

    match_labels: dict[str, str] | None = None
    """Labels with exactly these values."""
    match_expressions: list[Requirement] | None = None
    """Requirements that may have several values, or none."""


def is_empty(selector: NodeSelector) -> bool:
    """Return whether the selector has no requirement, and so matches every node."""
    return not selector.match_labels and not selector.match_expressions


def fault(selector: NodeSelector) -> tuple[str, object, str] | None:
    """Return the first fault of a selector as (key path inside it, value seen, value wanted); None if it is valid."""
    for index, requirement in enumerate(selector.match_expressions or ()):
        path = f"matchExpressions[{index}]"
        if not requirement.key:
            return f"{path}.key", requirement.key, "the name of a label"
        if requirement.operator not in OPERATORS:
            return f"{path}.operator", requirement.operator, "one of " + ", ".join(OPERATORS)
        if requirement.operator in _WITH_VALUES and not requirement.values:
            return f"{path}.values", requirement.values, f"at least one value for the operator {requirement.operator}"
        if requirement.operator in _WITHOUT_VALUES and requirement.values:
            return f"{path}.values", requirement.values, f"no values for the operator {requirement.operator}"
    return None


def matches(selector: NodeSelector | None, labels: Mapping[str, str]) -> bool:
    """Return whether a node with these labels is selected. No selector, and an invalid one, select nothing."""
    if selector is None:
        return False
    for key, value in (selector.match_labels or {}).items():
        if labels.get(key) != value:
            return False
    requirements = selector.match_expressions or ()
    return not requirements or (
        fault(selector) is None and all(_holds(requirement, labels) for requirement in requirements)
    )


def _holds(requirement: Requirement, labels: Mapping[str, str]) -> bool:
    present = requirement.key in labels
    match requirement.operator:
        case "Exists":
            return present
        case "DoesNotExist":
            return not present
        case "In":
            return present and labels[requirement.key] in (requirement.values or ())
        case _:  # NotIn is satisfied by a node without the label, as in Kubernetes
            return not present or labels[requirement.key] not in (requirement.values or ())


def _virtual_nodes(selector: NodeSelector) -> Iterator[dict[str, str]]:
    """Yield label sets that the selector mentions: its labels, with one value of each expression in turn.

    Set i takes value i of each expression, modulo its number of values; the sets repeat after the least common multiple
    of these numbers. Expressions without values add no label. NotIn adds the values that it forbids, as in Koordinator.
    """
    expressions = [requirement for requirement in selector.match_expressions or () if requirement.values]
    sets = math.lcm(*(len(requirement.values or ()) for requirement in expressions))
    for index in range(min(sets, _MOST_VIRTUAL_NODES)):
        chosen = {
            requirement.key: (requirement.values or [])[index % len(requirement.values or ())]
            for requirement in expressions
        }
        yield {**(selector.match_labels or {}), **chosen}


def overlapping(selectors: Sequence[NodeSelector | None]) -> list[tuple[int, int]]:
    """Return the positions of each two selectors that match the same virtual node, the earlier first; in order.

    The result is approximate: it depends on the document alone, and on the beginning of a huge one. `matching`
    evaluates a real node.
    """
    pairs: set[tuple[int, int]] = set()
    checked: set[frozenset[tuple[str, str]]] = set()
    for labels in itertools.chain.from_iterable(
        _virtual_nodes(selector) for selector in selectors if selector is not None
    ):
        virtual_node = frozenset(labels.items())
        if virtual_node in checked:
            continue
        checked.add(virtual_node)
        pairs.update(itertools.islice(itertools.combinations(matching(selectors, labels), 2), _MOST_OVERLAPS))
        if len(checked) * len(selectors) >= _MOST_MATCHES or len(pairs) >= _MOST_OVERLAPS:
            break
    return sorted(pairs)


def matching(selectors: Iterable[NodeSelector | None], labels: Mapping[str, str]) -> tuple[int, ...]:
    """Return the positions of the selectors that match a node with these labels."""
    return tuple(position for position, selector in enumerate(selectors) if matches(selector, labels))
