"""Evaluate the Mid formula on a NodeMetric report and the policy of its node.

Decodes the few fields that it needs, from a dict (`msgspec.convert`) or from bytes. A reader that needs more of the
status may extend `MidReport`. An absent value is never read as zero.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import msgspec

from api_types import names
from api_types.colocation import controller_config as slo
from api_types.colocation import node_reservation
from api_types.kubernetes import pods, quantities
from api_types.node_metric import mid_resource
from api_types.node_metric.mid_resource import MID_OF_NATIVE, Terms

BELOW_THRESHOLD_PERCENT: Final = 5
"""Distance of what is offered from the usage of the node's memory that evicts Mid pods."""


class BadReport(Exception):
    """A value of the report is invalid: negative, too large to count, or not a quantity."""


class WireResources(msgspec.Struct, frozen=True, gc=False):
    """A resource map of a NodeMetric."""

    resources: pods.QuantityMap | None = None


class WirePodUsage(msgspec.Struct, rename="camel", frozen=True, gc=False):
    """Usage of one pod in a NodeMetric."""

    name: str = ""
    namespace: str = ""
    pod_usage: WireResources = WireResources()


class WireMetric(msgspec.Struct, frozen=True):
    """A resource map in its wrapper."""

    resource: WireResources = WireResources()


class WireAllocated(msgspec.Struct, rename="camel", frozen=True):
    """`status.allocated` of a NodeMetric."""

    prod: pods.QuantityMap = {}
    mid: pods.QuantityMap = {}
    below_prod: pods.QuantityMap = {}


class WireUsage(msgspec.Struct, rename="camel", frozen=True):
    """`status.usage` of a NodeMetric: usage by class."""

    prod: pods.QuantityMap = {}
    mid: pods.QuantityMap = {}
    batch_and_free: pods.QuantityMap = {}
    system: pods.QuantityMap = {}
    native_mid: pods.QuantityMap = {}


class WireNodeUsage(msgspec.Struct, rename="camel", frozen=True):
    """`status.nodeMetric` of a NodeMetric."""

    node_usage: WireResources = WireResources()


class MidReport(msgspec.Struct, rename="camel", frozen=True):
    """The part of a NodeMetric's status that Mid resources are calculated from."""

    update_time: str | None = None
    allocated: WireAllocated | None = None
    usage: WireUsage | None = None
    node_metric: WireNodeUsage | None = None
    prod_peak_metric: WireMetric | None = None
    prod_reclaimable_metric: WireMetric | None = None


class Requests(NamedTuple):
    """Requests bound on a node: native ones of Prod and of other pods, and `kubernetes.io/mid-*` ones of all pods."""

    prod: Mapping[str, int]
    mid: Mapping[str, int]
    below_prod: Mapping[str, int] = MappingProxyType({})


@dataclass(frozen=True)
class MidPolicy:
    """A node's policy with every default filled in; shares in percent, by native resource."""

    enabled: bool
    publishes: bool
    """Whether the values are written to the node: not with `midPublish: shadow`."""
    degrade_seconds: int
    """Age beyond which a sample does not count."""
    threshold_percent: Mapping[str, int]
    static_percent: Mapping[str, int] | None
    """Set in static mode only."""
    reclaim_ratio_percent: int
    unallocated_percent: int
    total_percent: int
    usable_memory_percent: int | None
    """Share of the memory up to which Mid may be used; None where the memory of the node evicts no Mid pod."""
    floor: bool


def mid_policy(policy: slo.MidColocationPolicy) -> MidPolicy:
    """Return the policy with the defaults filled in."""
    eviction, defaults = policy.mid_eviction or slo.MidEviction(), slo.DEFAULTS.mid_eviction or slo.MidEviction()
    threshold = eviction.memory_threshold_percent or defaults.memory_threshold_percent or slo.NEVER_PERCENT
    evicts = eviction.mode == "evict" and threshold < slo.NEVER_PERCENT

    def value(field: str) -> int:
        own = getattr(policy, field)
        return int(getattr(slo.DEFAULTS, field) if own is None else own)

    return MidPolicy(
        enabled=bool(policy.enable),
        publishes=(policy.mid_publish or slo.DEFAULTS.mid_publish) == "node",
        degrade_seconds=60 * value("degrade_time_minutes"),
        threshold_percent={
            names.CPU: value("mid_cpu_threshold_percent"),
            names.MEMORY: value("mid_memory_threshold_percent"),
        },
        static_percent={
            names.CPU: value("mid_static_cpu_reserved_percent"),
            names.MEMORY: value("mid_static_memory_reserved_percent"),
        }
        if policy.mid_reclaim_mode == slo.STATIC
        else None,
        reclaim_ratio_percent=value("mid_reclaim_ratio_percent"),
        unallocated_percent=value("mid_unallocated_percent"),
        total_percent=value("mid_total_threshold_percent"),
        usable_memory_percent=max(threshold - BELOW_THRESHOLD_PERCENT, 0) if evicts else None,
        floor=(policy.mid_floor or slo.DEFAULTS.mid_floor) == "allocated",
    )


def reported_requests(report: MidReport) -> Requests | None:
    """Return the requests of the report's own snapshot; None where the agent does not report them. Raises BadReport."""
    if report.allocated is None:
        return None
    parts = zip(("prod", "mid", "belowProd"), msgspec.structs.astuple(report.allocated), strict=True)
    return Requests(*(amounts(part, f"allocated.{name}") for name, part in parts))


def amounts(wire: pods.QuantityMap, where: str) -> pods.Resources:
    """Return the amounts of a resource map at `status.<where>`. Raises BadReport."""
    found = {}
    for resource, quantity in wire.items():
        try:
            found[resource] = quantities.resource_units(resource, quantity)
        except quantities.InvalidQuantity as error:
            path = f"{where}.{resource}" if isinstance(error, quantities.TooLarge) else where
            raise BadReport(f"status.{path}: {error}") from error
        if found[resource] < 0:
            raise BadReport(f"status.{where}.{resource}: seen {quantity}, want 0 or more")
    return found


def _prediction(metric: WireMetric | None, where: str) -> pods.Resources | None:
    """Return the amounts of a metric that has both cpu and memory, None otherwise. Raises BadReport."""
    if metric is None:
        return None
    found = amounts(metric.resource.resources or {}, where)
    return found if MID_OF_NATIVE.keys() <= found.keys() else None


class Used(NamedTuple):
    """What the unused amount is calculated from, by native name.

    Without classes (Koordinator's agent) `amounts` is the usage of the whole node, that of Mid pods included.
    """

    amounts: Mapping[str, int]
    is_by_class: bool
    system: Mapping[str, int] = MappingProxyType({})
    """Part of `amounts` that is used outside of pods."""

    def unused(self, native: str, allocatable: Mapping[str, int], capacity: Mapping[str, int]) -> int:
        """Return what nothing but Mid uses of one resource; of the whole node's usage, what is left of its capacity."""
        whole, to_pods = capacity.get(native, 0), allocatable.get(native, 0)
        if not self.is_by_class:
            if native == names.MEMORY:  # Koordinator's agent counts huge pages as used, the capacity here is without
                whole += sum(
                    amount for name, amount in capacity.items() if name.startswith(node_reservation.HUGE_PAGES)
                )
            return max(whole - self.amounts[native], 0)
        reserved = min(self.system.get(native, 0), max(whole - to_pods, 0))  # is missing in allocatable already
        return max(to_pods - self.amounts[native] + reserved, 0)


def _used(report: MidReport) -> Used | None:
    """Return the usage of everything but Mid, None where it is not known. Raises BadReport.

    Batch and Free pods give CPU back at once, so only their memory counts. What no Mid request covers is not Mid's.
    """
    if report.usage is not None:
        prod, system = (amounts(getattr(report.usage, name), f"usage.{name}") for name in ("prod", "system"))
        batch_and_free = amounts(report.usage.batch_and_free, "usage.batchAndFree")
        if not (MID_OF_NATIVE.keys() <= prod.keys() & system.keys() and names.MEMORY in batch_and_free):
            return None
        native = amounts(report.usage.native_mid, "usage.nativeMid")
        cpu, memory = (prod[name] + system[name] + native.get(name, 0) for name in (names.CPU, names.MEMORY))
        memory += batch_and_free[names.MEMORY]
        return Used({names.CPU: cpu, names.MEMORY: memory}, is_by_class=True, system=system)
    if report.node_metric is None:
        return None
    whole = amounts(report.node_metric.node_usage.resources or {}, "nodeMetric.nodeUsage.resources")
    return Used(whole, is_by_class=False) if MID_OF_NATIVE.keys() <= whole.keys() else None


@dataclass(frozen=True)
class UsableReport:
    """Amounts of a report from which Mid resources can be calculated, by native name."""

    peak: pods.Resources | None
    """Predicted peak of the Prod pods; None where the report lacks it, or lacks the requests that belong to it."""
    reclaimable: pods.Resources | None
    """Reclaimable amount as the agent reports it; None where the report lacks it."""
    requests: Requests | None
    """Requests of the report's own snapshot; None where the agent does not report them."""
    used: Used | None
    """Usage of everything but Mid; None where it is not known, and in static mode, which does not read it."""

    def has_prediction(self) -> bool:
        """Check whether the report predicts what the Prod pods leave."""
        return self.peak is not None or self.reclaimable is not None


def usable_report(report: MidReport, policy: MidPolicy) -> UsableReport:
    """Read the amounts of a report. Raises BadReport where one of them is impossible."""
    peak = _prediction(report.prod_peak_metric, "prodPeakMetric.resource.resources")
    reported = _prediction(report.prod_reclaimable_metric, "prodReclaimableMetric.resource.resources")
    requests = reported_requests(report)
    if requests is None:
        peak = None
    return UsableReport(peak, reported, requests, _used(report) if policy.static_percent is None else None)


def terms(
    report: UsableReport,
    policy: MidPolicy,
    allocatable: Mapping[str, int],
    capacity: Mapping[str, int],
    bound: Requests,
    *,
    bound_before: Mapping[str, int] | None = None,
) -> dict[str, Terms]:
    """Evaluate the formula for both resources; return the terms by native name.

    `bound` is the requests of the report, or counted from the node's pods where it has none; `bound_before` is what
    the floor counts instead of the requests of all Mid pods, by Mid name. The peak is used only beside the report's own
    requests: values of two clocks are never subtracted.
    """
    usable, percent = None, policy.usable_memory_percent
    if percent is not None and report.used is not None and report.used.is_by_class:  # else no memory evicts a pod
        usable = max(mid_resource.share(capacity.get(names.MEMORY, 0), percent) - report.used.amounts[names.MEMORY], 0)
    return {
        native: mid_resource.calculate(
            Terms(
                allocatable=allocatable.get(native, 0),
                capacity=capacity.get(native, 0),
                allocated_prod=bound.prod.get(native, 0),
                allocated_below_prod=bound.below_prod.get(native) or None,
                allocated_mid=bound.mid.get(mid, 0),
                peak_prod=report.peak[native] if report.peak else None,
                unused=report.used.unused(native, allocatable, capacity) if report.used else 0,
                usable=usable if native == names.MEMORY else None,
                reclaim_ratio_percent=policy.reclaim_ratio_percent,
                threshold_percent=policy.threshold_percent[native],
                unallocated_percent=policy.unallocated_percent,
                bound_before=bound_before.get(mid, 0) if bound_before is not None else None,
                static_percent=policy.static_percent[native] if policy.static_percent else None,
            ),
            reclaimable_reported=report.reclaimable[native] if report.reclaimable else None,
            total_percent=policy.total_percent,
            has_floor=policy.floor,
        )
        for native, mid in MID_OF_NATIVE.items()
    }


class Metadata(msgspec.Struct, rename="camel", frozen=True, gc=False):
    """Identity of a NodeMetric; owner references exactly as received, because the manager writes them back."""

    name: str = ""
    uid: str = ""
    resource_version: str = ""
    creation_timestamp: str | None = None
    owner_references: list[dict[str, Any]] | None = None


class NodeMetric(msgspec.Struct, rename="camel", frozen=True, gc=False):
    """Identity and status of a NodeMetric; usage is left to readers that need it."""

    metadata: Metadata = Metadata()
    status: MidReport | None = None
