"""Reference model of the Mid formula, evaluated on published objects in exact fractions (docs/reference/formulas.md).

Reclaimable = max(0, min( ratio * Allocated[Prod] - Peak[Prod],  NodeAllocatable - Peak[Prod] ))
Share       = share * max( NodeAllocatable - Allocated[Prod] - Allocated[below Prod], 0 )
Calculated  = min( min( Reclaimable, NodeAllocatable * threshold ) + Share,  Unused )
Mid         = max( Calculated, Allocated[Mid] )     while Mid shrinks, only what was bound before counts as allocated

Unused is what nothing but Mid uses: by class where the report has `usage`, else of the whole node's capacity.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any, NamedTuple

from e2e.support import waiting
from e2e.support.cluster_client import ClusterClient, cpu_millis, units
from e2e.support.names import MID_CPU, MID_MEMORY

FLOORS = 3
"""Number of terms of the formula that are floored to a whole unit; the exact value may be that much larger."""


def evaluate(
    *,
    policy: Mapping[str, Any],
    prod: int,
    below: int,
    mid: int,
    peak: int,
    allocatable: int,
    unused: int,
    threshold: str,
) -> Fraction:
    """Return Mid of one resource, before it is floored."""
    ratio, share, cap = (
        Fraction(policy.get(key, default), 100)
        for key, default in (("midReclaimRatioPercent", 100), ("midUnallocatedPercent", 0), (threshold, 100))
    )
    reclaimable = max(Fraction(0), min(ratio * prod - peak, Fraction(allocatable - peak)))
    offered = min(min(reclaimable, allocatable * cap) + share * max(allocatable - prod - below, 0), Fraction(unused))
    return max(offered, Fraction(mid)) if policy.get("midFloor", "allocated") == "allocated" else offered


def unused(node: Mapping[str, Any], node_metric: Mapping[str, Any], native: str, read: Callable[[str], int]) -> int:
    """Return what nothing but Mid uses of one resource."""
    status, usage = node_metric["status"], node_metric["status"].get("usage")
    if usage is None:
        whole = read(status["nodeMetric"]["nodeUsage"]["resources"][native])
        return max(read(node["status"]["capacity"][native]) - whole, 0)
    capacity, allocatable = (read(node["status"][whole][native]) for whole in ("capacity", "allocatable"))
    counted = ("prod", "nativeMid") if native == "cpu" else ("prod", "nativeMid", "batchAndFree")
    system = max(read(usage["system"][native]) - max(capacity - allocatable, 0), 0)  # beyond the reservation
    return max(allocatable - sum(read(usage.get(each, {}).get(native, "0")) for each in counted) - system, 0)


def of(
    node: Mapping[str, Any], node_metric: Mapping[str, Any], *, with_floor: bool = True
) -> tuple[Fraction, Fraction]:
    """Return Mid CPU in milli-cores and memory in bytes, from a published Node and its NodeMetric."""
    policy, status = node_metric["spec"]["midColocationPolicy"], node_metric["status"]
    peak, allocated = status["prodPeakMetric"]["resource"]["resources"], status["allocated"]
    allocatable = node["status"]["allocatable"]

    def one(native: str, mid: str, threshold: str, read: Callable[[str], int]) -> Fraction:
        return evaluate(
            policy=policy,
            prod=read(allocated["prod"][native]),
            below=read(allocated.get("belowProd", {}).get(native, "0")),
            mid=units(allocated["mid"][mid]) if with_floor else 0,
            peak=read(peak[native]),
            allocatable=read(allocatable[native]),
            unused=unused(node, node_metric, native, read),
            threshold=threshold,
        )

    return (
        one("cpu", MID_CPU, "midCPUThresholdPercent", cpu_millis),
        one("memory", MID_MEMORY, "midMemoryThresholdPercent", units),
    )


class Published(NamedTuple):
    """Mid resources of a node, and the NodeMetric that they were calculated from."""

    offered: tuple[int, int]
    node: dict[str, Any]
    node_metric: dict[str, Any]
    shrinks: bool = False
    """Whether the floor counts only pods that were bound before some time; which ones, the objects do not show."""

    def exact(self) -> tuple[Fraction, Fraction]:
        """Return the values of the formula."""
        return of(self.node, self.node_metric)

    def is_due(self) -> bool:
        """Return whether the published values are those of the formula."""
        least = of(self.node, self.node_metric, with_floor=False) if self.shrinks else self.exact()
        return all(
            math.floor(calculated) - FLOORS < published <= exact
            for published, calculated, exact in zip(self.offered, least, self.exact(), strict=True)
        )


def wait_published(cluster_client: ClusterClient, node: str, *, within_seconds: float = 75.0) -> Published:
    """Wait until a node has the Mid resources of the formula for its newest report, which its annotation must name.

    A report, and an edited policy, each take some time from the NodeMetric to the node.
    """

    def read() -> tuple[Published, str | None]:
        seen, mid_status = cluster_client.get("Node", node), cluster_client.mid_status(node)
        allocatable = seen["status"]["allocatable"]
        offered = units(allocatable[MID_CPU]), units(allocatable[MID_MEMORY])
        shrinks = bool(mid_status and mid_status.get("floorBefore"))
        published = Published(offered, seen, cluster_client.node_metric(node), shrinks)
        return published, mid_status and mid_status.get("sample")

    def holds(seen: tuple[Published, str | None]) -> bool:
        published, sample = seen
        return sample == published.node_metric["status"].get("updateTime") and published.is_due()

    def shown(seen: tuple[Published, str | None]) -> str:
        published, sample = seen
        reported = published.node_metric["status"].get("updateTime")
        due = [float(value) for value in published.exact()]
        return f"{published.offered} offered by the sample of {sample}; {due} due by the report of {reported}"

    what = f"{node} has the Mid resources of the formula"
    return waiting.until(what, read, holds, within_seconds=within_seconds, show=shown)[0]
