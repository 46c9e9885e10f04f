"""Compute the resources that a node reserves: by its kubelet, and by `node.koordinator.sh/reservation`.

```
reserved(r)        = max( capacity(r) - allocatable(r), annotated(r) )
NodeAllocatable(r) = min( allocatable(r), capacity(r) - annotated(r) ) = capacity(r) - reserved(r)
```

The annotation is a JSON object in Koordinator's format. `resources` maps resource names to quantities. `reservedCPUs`
is a list such as "0-3,8"; its number of CPUs replaces a cpu quantity. `applyPolicy` restricts which pods may use those
CPUs and changes no sum. See decision 0007.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from api_types import names
from api_types.colocation import problem
from api_types.colocation.problem import Effect, KeyPath, Problem
from api_types.kubernetes import cpu_list, pods, quantities

HUGE_PAGES: Final = "hugepages-"
"""Begin of the resource names of pools of huge pages."""
_MOST_PROBLEMS: Final = 5
"""Largest number of returned problems: each becomes an Event, and 16 KiB have room for two thousand."""
_PATH: Final[KeyPath] = ("metadata", "annotations", names.ANNOTATION_NODE_RESERVATION)


class CheckedResources(NamedTuple):
    """Resources in whole units, and the problems for which the annotation was ignored."""

    resources: pods.Resources
    problems: tuple[Problem, ...]


def annotated(annotations: Mapping[str, str]) -> CheckedResources:
    """Return the reservation of the annotation; empty where it is absent, or where any part of it is invalid."""
    text = annotations.get(names.ANNOTATION_NODE_RESERVATION)
    if not text:
        return CheckedResources({}, ())
    if pods.is_too_long(text):
        actual, expected = (
            f"more than {pods.MOST_ANNOTATION_BYTES} bytes",
            f"a JSON object of at most {pods.MOST_ANNOTATION_BYTES} bytes",
        )
        return CheckedResources({}, (Problem(_PATH, actual, expected, Effect.LAYER_IGNORED),))
    try:
        reservation = json.loads(text)
    except (ValueError, RecursionError):
        return CheckedResources({}, (_problem((), text, "a JSON object"),))
    if not isinstance(reservation, dict):
        return CheckedResources({}, (_problem((), reservation, "an object"),))
    resources, problems = _quantities(reservation.get("resources"))
    cpus, wrong_cpus = _cpu_millis(reservation.get("reservedCPUs"))
    if cpus is not None:
        resources[names.CPU] = cpus
    problems += wrong_cpus
    return CheckedResources({} if problems else resources, tuple(problems[:_MOST_PROBLEMS]))


def capacity(node: pods.Node) -> pods.Resources:
    """Return the capacity of a node, its memory without the pools of huge pages, as the kubelet's allocatable has it.

    No process without a request for huge pages can use them. Raises quantities.InvalidQuantity.
    """
    whole = pods.units(node.status.capacity)
    if names.MEMORY in whole:
        pools = sum(amount for name, amount in whole.items() if name.startswith(HUGE_PAGES))
        whole[names.MEMORY] = max(whole[names.MEMORY] - pools, 0)
    return whole


def allocatable(node: pods.Node) -> CheckedResources:
    """Return NodeAllocatable, the resources left to pods, never below zero. Raises quantities.InvalidQuantity."""
    by_kubelet, whole = pods.allocatable(node), capacity(node)
    reserved = annotated(pods.annotation_map(node.metadata))
    unreserved = {name: whole[name] - value for name, value in reserved.resources.items() if name in whole}
    resources = {name: max(min(value, unreserved.get(name, value)), 0) for name, value in by_kubelet.items()}
    return CheckedResources(resources, reserved.problems)


def _quantities(document: Any) -> tuple[pods.Resources, list[Problem]]:
    if document is None:
        return {}, []
    if not isinstance(document, dict):
        return {}, [_problem(("resources",), document, "an object of quantities")]
    resources: pods.Resources = {}
    problems = []
    for name, value in document.items():
        try:
            units = quantities.resource_units(name, value)
        except quantities.InvalidQuantity:
            units = -1
        if units < 0:
            problems.append(_problem(("resources", name), value, "a quantity of at least 0, like 500m or 4Gi"))
        resources[name] = units
    return resources, problems


def _cpu_millis(cpus: Any) -> tuple[int | None, list[Problem]]:
    if cpus is None or cpus == "":
        return None, []
    try:
        return cpu_list.count(cpus) * 1000, []
    except (AttributeError, TypeError, ValueError):
        return None, [_problem(("reservedCPUs",), cpus, "a list of CPUs like 0-3,8")]


def _problem(path: KeyPath, value: Any, expected: str) -> Problem:
    return Problem((*_PATH, *path), problem.quoted(value), expected, Effect.LAYER_IGNORED)
