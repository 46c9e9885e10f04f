"""Make the inputs of the Mid formula from a NodeMetric report and the policy of its node.

Decodes the few fields that it needs, from a dict (`msgspec.convert`) or from bytes. A reader that needs more of the
status may extend `MidReport`. An absent value is never read as zero.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import msgspec

from api_types import names
from api_types.colocation import controller_config as slo
from api_types.kubernetes import pods, quantities
from api_types.node_metric.mid_resource import MID_OF_NATIVE, MidInputs, NoPredictionError


class BadReport(Exception):
    """A value of the report is invalid: negative, too large to count, or not a quantity."""


class WireResources(msgspec.Struct, frozen=True, gc=False):
    """A resource map of a NodeMetric."""

    resources: pods.QuantityMap | None = None


class WireMetric(msgspec.Struct, frozen=True):
    """A resource map in its wrapper."""

    resource: WireResources = WireResources()


class WireAllocated(msgspec.Struct, frozen=True):
    """`status.allocated` of a NodeMetric."""

    prod: pods.QuantityMap = {}
    mid: pods.QuantityMap = {}


class MidReport(msgspec.Struct, rename="camel", frozen=True):
    """The part of a NodeMetric's status that Mid resources are calculated from."""

    update_time: str | None = None
    allocated: WireAllocated | None = None
    prod_peak_metric: WireMetric | None = None
    prod_reclaimable_metric: WireMetric | None = None


class Requests(NamedTuple):
    """Requests bound on a node: native ones of Prod pods, and `kubernetes.io/mid-*` ones of all pods."""

    prod: Mapping[str, int]
    mid: Mapping[str, int]


@dataclass(frozen=True)
class MidPolicy:
    """A node's policy with every default filled in; shares in percent, by native resource."""

    threshold_percent: Mapping[str, int]
    static_percent: Mapping[str, int] | None
    """Set in static mode only."""
    reclaim_ratio_percent: int
    unallocated_percent: int
    floor: bool


def mid_policy(policy: slo.MidColocationPolicy) -> MidPolicy:
    """Return the policy with the defaults filled in."""

    def value(field: str) -> int:
        own = getattr(policy, field)
        return int(getattr(slo.DEFAULTS, field) if own is None else own)

    return MidPolicy(
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
        floor=(policy.mid_floor or slo.DEFAULTS.mid_floor) == "allocated",
    )


def reported_requests(report: MidReport) -> Requests | None:
    """Return the requests of the report's own snapshot; None where the agent does not report them. Raises BadReport."""
    if report.allocated is None:
        return None
    return Requests(
        _amounts(report.allocated.prod, "allocated.prod"),
        _amounts(report.allocated.mid, "allocated.mid"),
    )


def _amounts(wire: pods.QuantityMap, where: str) -> pods.Resources:
    try:
        amounts = pods.units(wire)
    except quantities.InvalidQuantity as error:
        raise BadReport(f"status.{where}: {error}") from error
    for resource, amount in amounts.items():
        if not 0 <= amount <= quantities.MOST:
            wanted = "want 0 or more" if amount < 0 else f"want {quantities.MOST} or less"
            raise BadReport(f"status.{where}.{resource}: seen {wire[resource]}, {wanted}")
    return amounts


def _prediction(metric: WireMetric | None, where: str) -> pods.Resources | None:
    """Return the amounts of a metric that has both cpu and memory, None otherwise. Raises BadReport."""
    if metric is None:
        return None
    amounts = _amounts(metric.resource.resources or {}, where)
    return amounts if MID_OF_NATIVE.keys() <= amounts.keys() else None


@dataclass(frozen=True)
class UsableReport:
    """Amounts of a report from which Mid resources can be calculated, by native name."""

    peak: pods.Resources | None
    """Predicted peak of the Prod pods; None where the report lacks it, or lacks the requests that belong to it."""
    reclaimable: pods.Resources | None
    """Reclaimable amount as the agent reports it; None where the report lacks it."""
    requests: Requests | None
    """Requests of the report's own snapshot; None where the agent does not report them."""


def usable_report(report: MidReport, policy: MidPolicy) -> UsableReport:
    """Read the amounts of a report. Raises NoPredictionError or BadReport where Mid cannot be calculated from it."""
    return _usable(report, policy, reported_requests(report))


def _usable(report: MidReport, policy: MidPolicy, requests: Requests | None) -> UsableReport:
    peak = _prediction(report.prod_peak_metric, "prodPeakMetric.resource.resources")
    reported = _prediction(report.prod_reclaimable_metric, "prodReclaimableMetric.resource.resources")
    if report.allocated is None:
        peak = None
    if peak is None and reported is None and policy.static_percent is None:
        raise NoPredictionError("the report carries no prediction")
    return UsableReport(peak, reported, requests)


def inputs_from(
    report: MidReport,
    policy: MidPolicy,
    allocatable: Mapping[str, int],
    capacity: Mapping[str, int],
    bound: Requests,
) -> dict[str, MidInputs]:
    """Return the inputs for both resources, by native name. Raises NoPredictionError or BadReport.

    `bound` is `reported_requests(report)`, or counted from the node's pods where that is None.
    """
    return formula_inputs(_usable(report, policy, bound), policy, allocatable, capacity, bound)


def formula_inputs(
    report: UsableReport,
    policy: MidPolicy,
    allocatable: Mapping[str, int],
    capacity: Mapping[str, int],
    bound: Requests,
) -> dict[str, MidInputs]:
    """Return the inputs for both resources, by native name.

    `bound` is the requests of the report, or counted from the node's pods where it has none. The peak is used only
    beside the report's own requests: values of two clocks are never subtracted.
    """
    return {
        native: MidInputs(
            allocatable=allocatable.get(native, 0),
            capacity=capacity.get(native, 0),
            allocated_prod=bound.prod.get(native, 0),
            allocated_mid=bound.mid.get(mid, 0),
            peak_prod=report.peak[native] if report.peak else None,
            reclaimable_reported=report.reclaimable[native] if report.reclaimable else None,
            reclaim_ratio_percent=policy.reclaim_ratio_percent,
            threshold_percent=policy.threshold_percent[native],
            unallocated_percent=policy.unallocated_percent,
            floor=policy.floor,
            static_percent=policy.static_percent[native] if policy.static_percent else None,
        )
        for native, mid in MID_OF_NATIVE.items()
    }
