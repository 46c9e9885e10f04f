"""Debug pages of a node (with the keys of Koordinator's own page) and of what a namespace holds of Mid. Pure."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:  # koordctl prints the page of a namespace, and does without numpy
    from scheduler_plugin.state.mid_quotas import MidQuotas
    from scheduler_plugin.state.node_columns import NodeEntry
    from scheduler_plugin.state.pod_info import AssignedPod


def node_page(entry: NodeEntry | None, resources: Sequence[str]) -> dict[str, Any]:
    """Return the assigned pods by time of assignment, and the sums with their pods; empty for an unknown node.

    Amounts are integers: cpu in milli-cores, all else in base units. Times are seconds since the epoch.
    """
    if entry is None:
        return {}
    load = entry.load
    ordered = sorted(load.pods.values(), key=lambda pod: pod.timestamp)
    page: dict[str, Any] = {"pods": [_pod(pod, resources) for pod in ordered]}
    report = load.report
    if report is None:
        return page
    estimated = [pod for pod in ordered if pod.estimate]
    alone = [(pod, load.alone(pod)) for pod in estimated]
    return page | {
        "updateTime": load.update_time,
        "reportIntervalSeconds": report.interval_seconds,
        "nodeUsage": None if report.node_usage is None else amounts(report.node_usage, resources),
        "prodUsage": amounts(load.prod_usage, resources),
        "nodeDelta": amounts(load.node_delta, resources),
        "prodDelta": amounts(load.prod_delta, resources),
        "nodeEstimated": amounts(load.node_estimated, resources),
        "nodeDeltaPods": _names(pod for pod, load_alone in alone if any(load_alone.node_delta)),
        "prodDeltaPods": _names(pod for pod, load_alone in alone if any(load_alone.prod_delta)),
        "nodeEstimatedPods": _names(estimated),
    }


def amounts(vector: Iterable[int], resources: Sequence[str]) -> dict[str, int]:
    """Return a vector by resource name."""
    return dict(zip(resources, vector, strict=True))


def _pod(pod: AssignedPod, resources: Sequence[str]) -> dict[str, Any]:
    return {
        "timestamp": pod.timestamp,
        "pod": _name(pod),
        "uid": pod.uid,
        "estimated": amounts(pod.estimate, resources) if pod.estimate else None,
        "estimatedDeadline": pod.forced_until,
        "confirmedByWatch": pod.observed,
    }


def _name(pod: AssignedPod) -> str:
    return pod.key.removeprefix("/")


def _names(several: Iterable[AssignedPod]) -> list[str]:
    return sorted(_name(pod) for pod in several)


MOST_HOLDERS: Final = 10


def namespace_page(namespace: str, quotas: MidQuotas) -> dict[str, Any]:
    """Return the use of a namespace, as JSON."""
    use, holders = quotas.namespace_use(namespace), quotas.namespace_holders(namespace)
    largest = heapq.nlargest(MOST_HOLDERS, holders, key=lambda key: (holders[key], key))
    return {
        "namespace": namespace,
        "held": _mid_amounts(*use.held),
        "quota": _mid_amounts(*use.quota),
        "quotaMalformed": bool(use.problem),
        "pods": len(holders),
        "largest": [{"pod": key, **_mid_amounts(*holders[key])} for key in largest],
    }


def namespace_text(document: Mapping[str, Any]) -> str:
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


def _mid_amounts(cpu_millis: int | None, memory_bytes: int | None) -> dict[str, int | None]:
    return {"cpuMillis": cpu_millis, "memoryBytes": memory_bytes}
