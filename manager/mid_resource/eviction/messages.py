"""Events about the eviction of Mid pods, and the same sentences for `koordctl explain node`. Pure."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping
from typing import Final

from api_types import names
from api_types.kubernetes import times
from manager.mid_resource.decision import STAYS, Departure
from manager.mid_resource.eviction.occupancy import Occupancy, requested
from manager.mid_resource.eviction.planning import MEMORY_IN_USE, EvictionPlan
from manager.mid_resource.eviction.policy import EvictionPolicy
from manager.mid_resource.eviction.shortage import TRIGGER_OF, Observation, Trigger
from manager.mid_resource.explanation import amount

EVICTED: Final = "MidPodEvicted"
ADVISED: Final = "MidEvictionAdvised"
REFUSED: Final = "MidEvictionRefused"
NOT_ALLOWED: Final = "MidEvictionNotAllowed"
NO_VICTIM: Final = "MidEvictionWithoutPod"
SLOW: Final = "MidPodTerminatesSlowly"
MID_ONLY: Final = "MidOnlyNode"
MID_ONLY_CLOSED: Final = "MidOnlyNodeClosed"
MID_ONLY_REOPENED: Final = "MidOnlyNodeReopened"
_ONLY_MID: Final = "only Mid pods and pods of DaemonSets run on the node"


def why(
    plan: EvictionPlan,
    observation: Observation | None,
    since: Mapping[Trigger, dt.datetime],
    departure: Departure = STAYS,
) -> str:
    """Return the cause of an eviction as a sentence without its end."""
    if Trigger.LEAVING in plan.triggers:
        return f"the node is about to be removed ({departure.cause})"
    if Trigger.MID_ONLY in plan.triggers:
        return _ONLY_MID
    return "; ".join(_causes(plan, observation, since)) or "midEmergency is drain"


def _causes(plan: EvictionPlan, observation: Observation | None, since: Mapping[Trigger, dt.datetime]) -> Iterator[str]:
    if observation is None or Trigger.DRAIN in plan.triggers:
        return
    for what, excess in plan.need.items():
        trigger = Trigger.NODE_MEMORY if what == MEMORY_IN_USE else TRIGGER_OF[what]
        begun = f" since {times.format_rfc3339(since[trigger])}" if trigger in since else ""
        if what == MEMORY_IN_USE:
            used, whole = observation.memory_used or 0, observation.memory_capacity
            yield (
                f"the node uses {used * 100 // max(whole, 1)} % of its memory{begun}, "
                f"{amount(names.MID_MEMORY, excess)} too much"
            )
        else:
            yield (
                f"Mid pods request {amount(what, excess)} of {what} more than the "
                f"{amount(what, observation.calculated[what])} that are calculated{begun}"
            )


def reopens(policy: EvictionPolicy, trigger: str = "") -> str:
    """Return when a node that was closed by a cause accepts new Mid pods again."""
    if trigger == Trigger.MID_ONLY:
        return "the node accepts new Mid pods again once another pod runs there, or the autoscaler keeps it"
    seconds = f"{policy.readmit_after.total_seconds():g} s"
    calm = f"{policy.readmit_percent} % of what its Mid pods request are calculated for {seconds}"
    if trigger in (Trigger.DRAIN, Trigger.LEAVING):
        over = "it stays" if trigger == Trigger.LEAVING else "the drain is over"
        later = f"{seconds} after its last eviction if no report shows a shortage"
        return f"the node accepts new Mid pods again once {over} and {calm}, or {later}"
    return f"the node accepts new Mid pods again once {calm}"


def mid_only(state: Occupancy, why_not: str) -> str:
    """Return what is done with a node that only Mid pods keep, and why; `why_not` states why it is not emptied."""
    cpu, memory = requested(state.mid_pods)
    amounts = f"{amount(names.MID_CPU, cpu)} and {amount(names.MID_MEMORY, memory)}"
    since = f" since {times.format_rfc3339(state.since)}" if state.since else ""
    found = f"{_ONLY_MID}{since}: {len(state.mid_pods)} Mid pods request {amounts}"
    if why_not:
        return f"{found}; the node is not emptied: {why_not}"
    return f"{found}; the node is closed for new Mid pods and emptied, so that the autoscaler removes it"
