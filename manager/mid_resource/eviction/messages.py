"""Events about the eviction of Mid pods, and the same sentences for `explain-mid`. Pure."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping
from typing import Final

from api_types import names
from api_types.kubernetes import times
from manager.mid_resource.eviction.planning import Plan
from manager.mid_resource.eviction.policy import EvictionPolicy
from manager.mid_resource.eviction.shortage import TRIGGER_OF, Observation, Trigger
from manager.mid_resource.eviction.victims import MEMORY_IN_USE
from manager.mid_resource.explanation import amount

EVICTED: Final = "MidPodEvicted"
ADVISED: Final = "MidEvictionAdvised"
REFUSED: Final = "MidEvictionRefused"
NOT_ALLOWED: Final = "MidEvictionNotAllowed"
NO_VICTIM: Final = "MidEvictionWithoutPod"
SLOW: Final = "MidPodTerminatesSlowly"


def why(plan: Plan, observation: Observation | None, since: Mapping[Trigger, dt.datetime]) -> str:
    """Return the cause of an eviction as a sentence without its end."""
    return "; ".join(_causes(plan, observation, since)) or "midEmergency is drain"


def _causes(plan: Plan, observation: Observation | None, since: Mapping[Trigger, dt.datetime]) -> Iterator[str]:
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


def reopens(policy: EvictionPolicy) -> str:
    """Return when a node accepts new Mid pods again."""
    return (
        f"the node accepts new Mid pods again once {policy.readmit_percent} % of what its Mid pods request are "
        f"calculated for {policy.readmit_after.total_seconds():g} s"
    )
