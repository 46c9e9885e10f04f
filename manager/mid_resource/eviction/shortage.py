"""Shortages that reports show, how long they last, and when a node may accept new Mid pods again. Pure.

A shortage counts once so many consecutive fresh reports show it. Absent is not zero: a report without a prediction, of
another snapshot, or with an impossible value shows no shortage, and ends none: it begins the count again.
"""

from __future__ import annotations

import datetime as dt
import enum
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from api_types import names
from api_types.node_metric import mid_eviction
from manager.mid_resource.eviction.policy import EvictionPolicy

MEMORY_HYSTERESIS_PERCENT: Final = 2
"""Evictions for the memory of a node end so far below the threshold, as in Koordinator's MemoryEvict."""
LEAST_MID_SHARE_PERCENT: Final = 5
"""Share of a node's memory that Mid pods have to use before its memory evicts them."""


class Trigger(enum.StrEnum):
    """Cause of an eviction: a stable code."""

    MID_CPU = "MidCPUShort"
    MID_MEMORY = "MidMemoryShort"
    NODE_MEMORY = "NodeMemoryHigh"
    DRAIN = "Drain"
    LEAVING = "NodeLeaving"
    MID_ONLY = mid_eviction.MID_ONLY
    UNDERUSED = mid_eviction.UNDERUSED


WHOLE_NODE: Final = (Trigger.DRAIN, Trigger.LEAVING, Trigger.MID_ONLY, Trigger.UNDERUSED)
"""Causes that evict every Mid pod of a node, whatever its reports show; an earlier one has precedence."""
EMPTIED: Final = frozenset({Trigger.MID_ONLY, Trigger.UNDERUSED})
"""Causes of a node that is emptied for the autoscaler."""
TRIGGER_OF: Final[Mapping[str, Trigger]] = {names.MID_CPU: Trigger.MID_CPU, names.MID_MEMORY: Trigger.MID_MEMORY}
"""The trigger of a shortage of each Mid resource."""


def recorded(before: str, cause: str) -> str:
    """Return the cause to record for an eviction on a node that was closed by `before`, empty for an open one.

    A recorded cause decides when the node opens. One that is emptied stays so, whatever else evicts there meanwhile.
    Among shortages, that of the node's memory has the strictest rule.
    """
    if before in EMPTIED:
        return before
    return before if before == Trigger.NODE_MEMORY and cause in TRIGGER_OF.values() else cause


@dataclass(frozen=True, slots=True)
class Observation:
    """What one usable report shows. Amounts are by Mid name, in milli-cores and bytes."""

    sample: dt.datetime
    calculated: Mapping[str, int]
    """Result of the formula without the floor."""
    allocated: Mapping[str, int]
    """Requests of the Mid pods, of the same snapshot."""
    memory_capacity: int
    memory_used: int | None = None
    """Memory in use on the node, in bytes; None where it is not known."""
    mid_memory_used: int | None = None
    """Memory in use by Mid pods, in bytes; None where it is not known."""

    def shortages(self, policy: EvictionPolicy) -> frozenset[Trigger]:
        """Return the shortages that this report shows."""
        found = {TRIGGER_OF[mid] for mid, amount in self.allocated.items() if amount > self.calculated[mid]}
        if self._memory_is_high(policy):
            found.add(Trigger.NODE_MEMORY)
        return frozenset(found)

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
class Watched:
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


def watched(before: Watched, seen: Observation | None, policy: EvictionPolicy, closed_by: str = "") -> Watched:
    """Return the state after a report, which is None where it shows nothing. A sample counts once.

    `closed_by` is the cause that closed the node; empty where it is open.
    """
    if seen is None:
        return Watched(newest=before.newest)
    last = before.newest
    if last is not None and seen.sample <= last.sample:
        return replace(before, newest=seen) if seen.sample == last.sample else before
    if last is not None and seen.sample - last.sample > policy.fresh:
        before = Watched()
    shown = seen.shortages(policy)
    return Watched(
        newest=seen,
        reports={trigger: before.reports.get(trigger, 0) + 1 for trigger in shown},
        since={trigger: before.since.get(trigger, seen.sample) for trigger in shown},
        calm_since=(before.calm_since or seen.sample) if seen.is_calm(policy, closed_by) else None,
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
