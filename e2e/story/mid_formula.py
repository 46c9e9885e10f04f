"""The Mid formula (design 4.4), evaluated on what the cluster publishes, in exact fractions.

Reclaimable = max(0, min( ratio * Allocated[Prod] - Peak[Prod],  NodeAllocatable - Peak[Prod] ))
Mid         = min( Reclaimable, NodeAllocatable * threshold )  +  share * max( NodeAllocatable - Allocated[Prod], 0 )
Mid         = max( Mid, Allocated[Mid] )
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

from e2e.story import waiting
from e2e.story.eyes import MID_CPU, MID_MEMORY, Eyes, cpu_millis, units

FLOORS = 3
"""Amounts of the formula that are each floored to a whole unit; the exact value may be that much larger."""


def evaluate(
    *, policy: Mapping[str, Any], prod: int, mid: int, peak: int, allocatable: int, threshold: str
) -> Fraction:
    """Mid of one resource, before it is floored."""
    ratio, share, cap = (
        Fraction(policy.get(key, default), 100)
        for key, default in (("midReclaimRatioPercent", 100), ("midUnallocatedPercent", 0), (threshold, 100))
    )
    reclaimable = max(Fraction(0), min(ratio * prod - peak, Fraction(allocatable - peak)))
    offered = min(reclaimable, allocatable * cap) + share * max(allocatable - prod, 0)
    return max(offered, Fraction(mid)) if policy.get("midFloor", "allocated") == "allocated" else offered


def of(node: Mapping[str, Any], node_metric: Mapping[str, Any]) -> tuple[Fraction, Fraction]:
    """Mid CPU in milli-cores and memory in bytes, from a Node and its NodeMetric as they are published."""
    policy, status = node_metric["spec"]["midColocationPolicy"], node_metric["status"]
    peak, allocated = status["prodPeakMetric"]["resource"]["resources"], status["allocated"]
    allocatable = node["status"]["allocatable"]

    def one(native: str, mid: str, threshold: str, read: Callable[[str], int]) -> Fraction:
        return evaluate(
            policy=policy,
            prod=read(allocated["prod"][native]),
            mid=units(allocated["mid"][mid]),
            peak=read(peak[native]),
            allocatable=read(allocatable[native]),
            threshold=threshold,
        )

    return (
        one("cpu", MID_CPU, "midCPUThresholdPercent", cpu_millis),
        one("memory", MID_MEMORY, "midMemoryThresholdPercent", units),
    )


def is_floor_of(published: int, exact: Fraction) -> bool:
    """Whether a published integer is the exact value with its terms floored."""
    return math.floor(exact) - FLOORS < published <= exact


def same_sample(eyes: Eyes, node: str, *, within_seconds: float = 60.0) -> tuple[dict[str, Any], dict[str, Any]]:
    """A Node and the NodeMetric that its Mid resources were calculated from, by the receipt."""

    def look() -> tuple[dict[str, Any], dict[str, Any], str | None]:
        receipt = eyes.receipt(node)
        return eyes.get("Node", node), eyes.node_metric(node), receipt and receipt.get("sample")

    found, metric, _ = waiting.until(
        f"Mid of {node} calculated from the newest report",
        look,
        lambda seen: seen[2] is not None and seen[2] == seen[1]["status"].get("updateTime"),
        within_seconds=within_seconds,
    )
    return found, metric
