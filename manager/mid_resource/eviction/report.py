"""What the eviction of Mid pods reads of a NodeMetric: usability of the report, usage of each pod. Pure.

The observation of each report is made from what the Mid controller calculated. Just before a pod is chosen, the whole
NodeMetric is read again: its conditions and the usage of its pods are not kept for all nodes.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from typing import Final

import msgspec

from api_types import names
from api_types.kubernetes import pods, quantities, times
from api_types.node_metric import mid_report
from api_types.node_metric.mid_report import BadReport, WireUsage
from manager.mid_resource.calculator import Target
from manager.mid_resource.case import FROM_REPORT, Case
from manager.mid_resource.decision import FUTURE_TOLERANCE, Action
from manager.mid_resource.eviction.shortage import Observation
from manager.mid_resource.reasons import Reason

_DEGRADED: Final = frozenset({"NoPrediction", "SpecRefused", "PredictorSwitchedOff"})
"""Reasons of the condition PredictionDegraded with which the peak is not the one that the strategy wants."""


_MEASURED_TOLERANCE_PERCENT: Final = 10


class Condition(msgspec.Struct, frozen=True, gc=False):
    """A condition of a report."""

    type: str = ""
    status: str = ""
    reason: str = ""


class Prediction(msgspec.Struct, frozen=True, gc=False):
    """Age of the recorded history."""

    since: str | None = None


class PodUsage(msgspec.Struct, rename="camel", frozen=True, gc=False):
    """Usage of one pod."""

    name: str = ""
    namespace: str = ""
    pod_usage: mid_report.WireResources = mid_report.WireResources()


class Status(msgspec.Struct, rename="camel", frozen=True):
    """Part of a report."""

    update_time: str | None = None
    conditions: list[Condition] | None = None
    prediction: Prediction | None = None
    pods_metric: list[PodUsage | None] | None = None


class FullReport(msgspec.Struct, frozen=True):
    """A NodeMetric, as it is read before a pod is chosen."""

    status: Status | None = None


def observation(case: Case, calculated: Target, requests_from: str) -> Observation | None:
    """Return what the newest report of a node shows; None for one on which no eviction may be based.

    That is every report but a usable one with a peak and requests of one snapshot, of a node with a right clock.
    """
    sample, lines = case.inputs.sample_time, calculated.lines
    if (
        case.decision.action is not Action.CALCULATE
        or calculated.reason is not Reason.CALCULATED
        or requests_from != FROM_REPORT
        or case.inputs.clock_fault
        or sample is None
    ):
        return None
    found: dict[str, tuple[int, int]] = {}
    for mid in names.MID_RESOURCES:
        line = lines.get(mid)
        if line is None or line.calculated is None or line.allocated_mid is None:
            return None
        if line.peak_prod is None or line.capacity is None or line.peak_prod > line.capacity:
            return None  # every peak is at most the capacity
        found[mid] = line.calculated, line.allocated_mid
    usage = _usage(case)
    if usage is None or not all(_is_possible(usage[native], case, native) for native in usage):
        return None
    of_classes = usage[names.MEMORY]
    return Observation(
        sample=sample,
        calculated={mid: calculated for mid, (calculated, _) in found.items()},
        allocated={mid: allocated for mid, (_, allocated) in found.items()},
        memory_capacity=lines[names.MID_MEMORY].capacity or 0,
        memory_used=_sum(of_classes),
        mid_memory_used=of_classes["mid"],
    )


def _usage(case: Case) -> dict[str, dict[str, int | None]] | None:
    """Return native resource -> class -> usage, None for a class that is not known; None where a value is malformed."""
    found: dict[str, dict[str, int | None]] = {names.CPU: {}, names.MEMORY: {}}
    usage = case.report.usage or WireUsage()
    for name, wire in (
        ("prod", usage.prod), ("mid", usage.mid), ("batchAndFree", usage.batch_and_free), ("system", usage.system),
    ):  # fmt: skip
        try:
            amounts = mid_report.amounts(wire, f"usage.{name}")
        except BadReport:
            return None
        for native, of_class in found.items():
            of_class[name] = amounts.get(native)
    return found


def _is_possible(usage: dict[str, int | None], case: Case, native: str) -> bool:
    """Check whether a node can use so much: the classes are measured one after another, so a little more is."""
    capacity = pods.units(case.node.status.capacity).get(native, 0)
    used = sum(amount for amount in usage.values() if amount is not None)
    return used * 100 <= (100 + _MEASURED_TOLERANCE_PERCENT) * capacity


def _sum(usage: dict[str, int | None]) -> int | None:
    known = [amount for amount in usage.values() if amount is not None]
    return sum(known) if len(known) == len(usage) else None


def fault(read: FullReport, seen: Observation, cold_start: dt.timedelta, now: dt.datetime) -> str:
    """Return why a report that was read again is nothing to evict for; empty where it is."""
    status = read.status or Status()
    sample = times.parse_rfc3339_or_none(status.update_time)
    if sample is None or sample < seen.sample or sample > now + FUTURE_TOLERANCE:
        return f"the report of {times.format_rfc3339(seen.sample)} was replaced by another one"
    for each in status.conditions or ():
        if each.type == "Ready" and each.status != "True":
            return f"its condition Ready is {each.status} ({each.reason})"
        if each.type == "PredictionDegraded" and each.status == "True" and each.reason in _DEGRADED:
            return f"its condition PredictionDegraded has the reason {each.reason}"
    since = times.parse_rfc3339_or_none(status.prediction.since if status.prediction else None)
    if since is not None and sample - since < cold_start:
        return f"its history begins at {times.format_rfc3339(since)}, later than coldStartPeriodSeconds ago"
    return ""


def memory_of_pods(read: FullReport) -> dict[str, int]:
    """Return the memory of each pod, in bytes, by namespace/name; a malformed or negative one is left out."""
    return dict(_memory_of_pods(read))


def _memory_of_pods(read: FullReport) -> Iterator[tuple[str, int]]:
    for each in (read.status.pods_metric if read.status else None) or ():
        wire = (each.pod_usage.resources or {}).get(names.MEMORY) if each else None
        if each is None or wire is None:
            continue
        try:
            amount = quantities.resource_units(names.MEMORY, wire)
        except quantities.InvalidQuantity:
            continue
        if 0 <= amount <= quantities.MOST:
            yield f"{each.namespace}/{each.name}", amount
