"""Map the cases of Koordinator's pod webhook to the rules for Mid pods.

The rules set native limits and native requests of zero besides; these are not compared.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from api_types import names
from api_types.kubernetes import quantities
from api_types.kubernetes.priority_and_qos import PriorityClass
from api_types.mid_pods import template

_FUNCTION = "pod mutating webhook (cpu milli, memory bytes in native names)"
_NATIVE = (names.CPU, names.MEMORY)
_MID_OF = {names.CPU: names.MID_CPU, names.MEMORY: names.MID_MEMORY}


def mutated(case: Mapping[str, Any]) -> dict[str, Any]:
    """Apply the rules to a pod with one container."""
    written = {
        where: {name: quantities.format_units(name, amount) for name, amount in amounts.items()}
        for where, amounts in case["container"].items()
    }
    pod = {
        "metadata": {"labels": {names.LABEL_PRIORITY_CLASS: case["priority_class"]}},
        "spec": {"containers": [{"name": "c", "resources": written}]},
    }
    (container,) = template.limited(pod)["spec"]["containers"]
    is_mid = template.is_mid(pod)
    return {
        "container": {
            where: {
                name: quantities.resource_units(name, amount)
                for name, amount in amounts.items()
                if not is_mid or name not in _NATIVE
            }
            for where, amounts in container["resources"].items()
        }
    }


def _is_of(case: Mapping[str, Any], priority_class: PriorityClass) -> bool:
    return bool(case["input"]["priority_class"] == priority_class.value)


def _amounts(case: Mapping[str, Any]) -> tuple[Mapping[str, int], Mapping[str, int]]:
    container = case["input"].get("container") or {}
    return container.get("requests") or {}, container.get("limits") or {}


def _is_batch(case: Mapping[str, Any]) -> bool:
    return _is_of(case, PriorityClass.BATCH)


def _has_a_request_without_a_limit(case: Mapping[str, Any]) -> bool:
    requests, limits = _amounts(case)
    return _is_of(case, PriorityClass.MID) and any(
        not requests.keys().isdisjoint(pair) and limits.keys().isdisjoint(pair) for pair in _MID_OF.items()
    )


def _has_both_names(case: Mapping[str, Any]) -> bool:
    stated = {name for amounts in _amounts(case) for name in amounts}
    return _is_of(case, PriorityClass.MID) and any({native, mid} <= stated for native, mid in _MID_OF.items())


def _has_zero(case: Mapping[str, Any]) -> bool:
    return _is_of(case, PriorityClass.MID) and any(0 in amounts.values() for amounts in _amounts(case))


def _has_overhead(case: Mapping[str, Any]) -> bool:
    return bool(case["input"].get("overhead"))


ADAPTERS = {_FUNCTION: mutated}
DIFFERENT_ON_PURPOSE = [
    (_FUNCTION, _is_batch, "Batch is not published: plain resources of its pods stay"),
    (_FUNCTION, _has_a_request_without_a_limit, "a missing limit is the request, or the container would be unlimited"),
    (_FUNCTION, _has_both_names, "stated Mid resources never change"),
    (_FUNCTION, _has_zero, "a limit of 0 means unlimited, so it states no amount"),
    (_FUNCTION, _has_overhead, "overhead stays native: the admission of its RuntimeClass refuses another one"),
]
