"""Shortages that reports show, how long they last, and when a node may accept new Mid pods again. Pure.

A shortage counts once so many consecutive fresh reports show it. Absent is not zero: a report without a prediction, of
another snapshot, or with an impossible value shows no shortage, and ends none: it begins the count again.

The observation of each report is made from what the Mid controller calculated. Just before a pod is chosen, the whole
NodeMetric is read again: its conditions and the usage of its pods are not kept for all nodes.
"""

from __future__ import annotations

import datetime as dt
import enum
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

import msgspec

from api_types import names
from api_types.colocation import node_reservation
from api_types.kubernetes import pods, quantities, times
from api_types.node_metric import mid_eviction, mid_report
from api_types.node_metric.mid_report import BadReport, WireUsage
from manager.mid_resource.decision import FUTURE_TOLERANCE, Action, Case
from manager.mid_resource.eviction.policy import EvictionPolicy
from manager.mid_resource.formula import FROM_REPORT, Target
from manager.mid_resource.reasons import Reason

MEMORY_HYSTERESIS_PERCENT: Final = 2
"""Evictions for the memory of a node end so far below the threshold, as in Koordinator's MemoryEvict."""
LEAST_MID_SHARE_PERCENT: Final = 5
"""Share of a node's memory that Mid pods have to use before its memory evicts them."""
_DEGRADED: Final = frozenset({"NoPrediction", "SpecRefused", "PredictorSwitchedOff"})
"""Reasons of the condition PredictionDegraded with which the peak is not the one that the strategy wants."""


_MEASURED_TOLERANCE_PERCENT: Final = 10


class Trigger(enum.StrEnum):
    """Cause of an eviction: a stable code."""

    MID_CPU = "MidCPUShort"
    MID_MEMORY = "MidMemoryShort"
    NODE_MEMORY = "NodeMemoryHigh"
    DRAIN = "Drain"
    LEAVING = "NodeLeaving"
    MID_ONLY = mid_eviction.MID_ONLY


WHOLE_NODE: Final = (Trigger.DRAIN, Trigger.LEAVING, Trigger.MID_ONLY)
"""Causes that evict every Mid pod of a node, whatever its reports show; an earlier one has precedence."""
TRIGGER_OF: Final[Mapping[str, Trigger]] = {names.MID_CPU: Trigger.MID_CPU, names.MID_MEMORY: Trigger.MID_MEMORY}
"""The trigger of a shortage of each Mid resource."""


def recorded(before: str, cause: str) -> str:
    """Return the cause to record for an eviction on a node that was closed by `before`, empty for an open one.

    A recorded cause decides when the node opens. One that is emptied stays so, whatever else evicts there meanwhile.
    Among shortages, that of the node's memory has the strictest rule.
    """
    if before == Trigger.MID_ONLY:
        return before
    return before if before == Trigger.NODE_MEMORY and cause in TRIGGER_OF.values() else cause


@dataclass(frozen=True, slots=True)
class Observation:
    """What one usable report shows. Amounts are by Mid name, in milli-cores and bytes."""

    sample: dt.datetime
    calculated: Mapping[str, int]
    """Result of the formula without the floor, and without the bound by what Mid pods may use."""
    allocated: Mapping[str, int]
    """Requests of the Mid pods, of the same snapshot."""
    memory_capacity: int
    memory_used: int | None = None
    """Memory in use on the node, in bytes; None where it is not known."""
    mid_memory_used: int | None = None
    """Memory in use by Mid pods, in bytes; None where it is not known."""

    def shortages(self, policy: EvictionPolicy, lasting: Collection[Trigger] = ()) -> frozenset[Trigger]:
        """Return the shortages that this report shows; the tolerance is not for those that last already."""
        shown = {
            trigger
            for mid, amount in self.allocated.items()
            if (amount - self.calculated[mid]) * 100
            > (0 if (trigger := TRIGGER_OF[mid]) in lasting else policy.tolerance_percent * amount)
        }
        if self._memory_is_high(policy):
            shown.add(Trigger.NODE_MEMORY)
        return frozenset(shown)

    def _memory_is_high(self, policy: EvictionPolicy) -> bool:
        threshold = policy.memory_threshold_percent
        if threshold is None or self.memory_used is None or self.mid_memory_used is None:
            return False
        return (
            self.memory_used * 100 >= threshold * self.memory_capacity
            and self.mid_memory_used * 100 >= LEAST_MID_SHARE_PERCENT * self.memory_capacity
        )

    def is_calm(self, policy: EvictionPolicy, closed_by: str = "") -> bool:
        """Check whether the node has enough beyond what its Mid pods request.

        Where its memory closed it, that has to be below the threshold by the same share: new Mid pods use memory too.
        Other nodes only need not be short of it, whatever Prod alone uses.
        """
        share = policy.readmit_percent
        if any(self.calculated[mid] * 100 < share * amount for mid, amount in self.allocated.items()):
            return False
        threshold = policy.memory_threshold_percent
        if closed_by != Trigger.NODE_MEMORY or threshold is None or self.memory_used is None:
            return not self._memory_is_high(policy)
        return self.memory_used * share < threshold * self.memory_capacity


@dataclass(frozen=True)
class Watching:
    """What the reports of a node have shown so far; a new leader begins with nothing."""

    newest: Observation | None = None
    reports: Mapping[Trigger, int] = field(default_factory=dict)
    """Consecutive reports that showed each shortage."""
    since: Mapping[Trigger, dt.datetime] = field(default_factory=dict)
    """Sample time of the first of them."""
    calm_since: dt.datetime | None = None
    """Sample time of the first report since which every one was calm."""

    def lasting(self, policy: EvictionPolicy) -> frozenset[Trigger]:
        """Return the shortages that enough reports have shown."""
        return frozenset(trigger for trigger, count in self.reports.items() if count >= policy.reports)

    def is_fresh(self, policy: EvictionPolicy, now: dt.datetime) -> bool:
        """Check whether the newest report is young enough to act on; one of the future is not."""
        return self.newest is not None and -policy.fresh <= self.newest.sample - now <= policy.fresh

    def may_readmit(self, policy: EvictionPolicy, now: dt.datetime) -> bool:
        """Check whether the node has been calm for long enough."""
        if self.calm_since is None or self.newest is None or not self.is_fresh(policy, now):
            return False
        return self.newest.sample - self.calm_since >= policy.readmit_after


def watched(before: Watching, observation: Observation | None, policy: EvictionPolicy, closed_by: str = "") -> Watching:
    """Return the state after a report, which is None where it shows nothing. A sample counts once.

    `closed_by` is the cause that closed the node; empty where it is open.
    """
    if observation is None:
        return Watching(newest=before.newest)
    last = before.newest
    if last is not None and observation.sample <= last.sample:
        return replace(before, newest=observation) if observation.sample == last.sample else before
    if last is not None and observation.sample - last.sample > policy.fresh:
        before = Watching()
    shown = observation.shortages(policy, before.lasting(policy))
    return Watching(
        newest=observation,
        reports={trigger: before.reports.get(trigger, 0) + 1 for trigger in shown},
        since={trigger: before.since.get(trigger, observation.sample) for trigger in shown},
        calm_since=(before.calm_since or observation.sample) if observation.is_calm(policy, closed_by) else None,
    )


def memory_to_release(capacity: int, used: int, threshold_percent: int, lower_percent: int | None = None) -> int:
    """Return the bytes to release once usage reaches the threshold, down to the lower one; 0 below the threshold.

    Source: Koordinator, MemoryEvict of koordlet: usage counts in whole percent.
    """
    if capacity <= 0:
        return 0
    lower = threshold_percent - MEMORY_HYSTERESIS_PERCENT if lower_percent is None else lower_percent
    used_percent = used * 100 // capacity
    return max(capacity * (used_percent - lower) // 100, 0) if used_percent >= threshold_percent else 0


class ReportPrediction(msgspec.Struct, frozen=True, gc=False):
    """Age of the recorded history."""

    since: str | None = None


class FullStatus(msgspec.Struct, rename="camel", frozen=True):
    """Part of a report."""

    update_time: str | None = None
    conditions: list[pods.ObjectCondition] | None = None
    prediction: ReportPrediction | None = None
    pods_metric: list[mid_report.WirePodUsage | None] | None = None


class FullReport(msgspec.Struct, frozen=True):
    """A NodeMetric, as it is read before a pod is chosen."""

    status: FullStatus | None = None


def observe_report(case: Case, calculated: Target, requests_from: str) -> Observation | None:
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
    amounts: dict[str, tuple[int, int]] = {}
    for mid in names.MID_RESOURCES:
        line = lines.get(mid)
        if line is None or line.calculated is None or line.allocated_mid is None:
            return None
        if line.peak_prod is None or line.capacity is None or line.peak_prod > line.capacity:
            return None  # every peak is at most the capacity
        amounts[mid] = line.left_by_prod, line.allocated_mid
    usage = _usage(case)
    if usage is None or not all(_is_possible(usage[native], case, native) for native in usage):
        return None
    of_classes = usage[names.MEMORY]
    return Observation(
        sample=sample,
        calculated={mid: calculated for mid, (calculated, _) in amounts.items()},
        allocated={mid: allocated for mid, (_, allocated) in amounts.items()},
        memory_capacity=lines[names.MID_MEMORY].capacity or 0,
        memory_used=None if None in of_classes.values() else sum(filter(None, of_classes.values())),
        mid_memory_used=of_classes["mid"],
    )


def _usage(case: Case) -> dict[str, dict[str, int | None]] | None:
    """Return native resource -> class -> usage, None for a class that is not known; None where a value is malformed."""
    usage_of_native: dict[str, dict[str, int | None]] = {names.CPU: {}, names.MEMORY: {}}
    usage = case.report.usage or WireUsage()
    for name, wire in (
        ("prod", usage.prod), ("mid", usage.mid), ("batchAndFree", usage.batch_and_free), ("system", usage.system),
    ):  # fmt: skip
        try:
            amounts = mid_report.amounts(wire, f"usage.{name}")
        except BadReport:
            return None
        for native, of_class in usage_of_native.items():
            of_class[name] = amounts.get(native)
    return usage_of_native


def _is_possible(usage: dict[str, int | None], case: Case, native: str) -> bool:
    """Check whether a node can use so much: the classes are measured one after another, so a little more is.

    Swap counts beside the memory, because what is swapped out is used.
    """
    capacity, info = node_reservation.capacity(case.node).get(native, 0), case.node.status.node_info
    if native == names.MEMORY and info is not None and info.swap is not None:
        capacity += info.swap.get("capacity", 0)
    used = sum(amount for amount in usage.values() if amount is not None)
    return used * 100 <= (100 + _MEASURED_TOLERANCE_PERCENT) * capacity


def fault(read: FullReport, observation: Observation, cold_start: dt.timedelta, now: dt.datetime) -> str:
    """Return why a report that was read again is nothing to evict for; empty where it is."""
    status = read.status or FullStatus()
    sample = times.parse_rfc3339_or_none(status.update_time)
    if sample is None or sample < observation.sample or sample > now + FUTURE_TOLERANCE:
        return f"the report of {times.format_rfc3339(observation.sample)} was replaced by another one"
    for condition in status.conditions or ():
        if condition.type == "Ready" and condition.status != "True":
            return f"its condition Ready is {condition.status} ({condition.reason})"
        if condition.type == "PredictionDegraded" and condition.status == "True" and condition.reason in _DEGRADED:
            return f"its condition PredictionDegraded has the reason {condition.reason}"
    since = times.parse_rfc3339_or_none(status.prediction.since if status.prediction else None)
    if since is not None and sample - since < cold_start:
        return f"its history begins at {times.format_rfc3339(since)}, later than coldStartPeriodSeconds ago"
    return ""


def memory_of_pods(read: FullReport) -> dict[str, int]:
    """Return the memory of each pod, in bytes, by namespace/name; a malformed or negative one is left out."""
    used = {}
    for pod in (read.status.pods_metric if read.status else None) or ():
        wire = (pod.pod_usage.resources or {}).get(names.MEMORY) if pod else None
        if pod is None or wire is None:
            continue
        try:
            amount = quantities.resource_units(names.MEMORY, wire)
        except quantities.InvalidQuantity:
            continue
        if amount >= 0:
            used[f"{pod.namespace}/{pod.name}"] = amount
    return used
