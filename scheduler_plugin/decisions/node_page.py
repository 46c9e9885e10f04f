"""Debug page of one node: its assigned pods and sums, with the keys of Koordinator's own debug page. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

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
