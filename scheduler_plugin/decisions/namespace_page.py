"""Describe what the pods of a namespace hold of Mid resources, now: the largest holders first. Pure."""

from __future__ import annotations

import heapq
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:  # koordctl prints the page, and does without numpy
    from scheduler_plugin.state.mid_quotas import MidQuotas

MOST_HOLDERS: Final = 10


def document(namespace: str, quotas: MidQuotas) -> dict[str, Any]:
    """Return the use of a namespace, as JSON."""
    use, holders = quotas.namespace_use(namespace), quotas.namespace_holders(namespace)
    largest = heapq.nlargest(MOST_HOLDERS, holders, key=lambda key: (holders[key], key))
    return {
        "namespace": namespace,
        "held": _amounts(*use.held),
        "quota": _amounts(*use.quota),
        "quotaMalformed": use.is_malformed,
        "pods": len(holders),
        "largest": [{"pod": key, **_amounts(*holders[key])} for key in largest],
    }


def text(document: Mapping[str, Any]) -> str:
    """Return the use of a namespace in one sentence."""
    amounts, quota = document["held"], document["quota"]
    cpu, memory = amounts["cpuMillis"] / 1000, amounts["memoryBytes"] / 2**30
    of_cpu = "" if quota["cpuMillis"] is None else f" of {quota['cpuMillis'] / 1000:g}"
    of_memory = "" if quota["memoryBytes"] is None else f" of {quota['memoryBytes'] / 2**30:g}"
    largest = [f"{holder['pod']} {holder['cpuMillis'] / 1000:g} cores" for holder in document["largest"]]
    more = document["pods"] - len(largest)
    pods = ", ".join([*largest, *([f"{more} more pods"] if more else [])])
    malformed = " (its annotation mid-quota is malformed)" if document["quotaMalformed"] else ""
    return (
        f"namespace {document['namespace']} holds {cpu:g}{of_cpu} cores and {memory:g}{of_memory} GiB of Mid now"
        f"{malformed}" + (f": {pods}" if pods else "")
    )


def _amounts(cpu_millis: int | None, memory_bytes: int | None) -> dict[str, int | None]:
    return {"cpuMillis": cpu_millis, "memoryBytes": memory_bytes}
