"""Choose the pod that a node gives up next, from what its newest report and a list of its pods show. Pure.

What terminates counts as freed, also where the report of the agent still holds it. Requests count as the lower of the
report and the list, so that neither a pod that has ended since nor one that the report does not know yet makes another
one go.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

from api_types import names
from manager.mid_resource.eviction import shortage, victims
from manager.mid_resource.eviction.pod_view import Candidate, NodePods
from manager.mid_resource.eviction.policy import EvictionPolicy
from manager.mid_resource.eviction.shortage import Observation, Trigger
from manager.mid_resource.eviction.victims import MEMORY_IN_USE, Need


@dataclass(frozen=True)
class Plan:
    """The pod that goes next, and why; without one the reason is in `nothing`."""

    victim: Candidate | None
    triggers: tuple[Trigger, ...]
    need: Need
    nothing: str = ""
    protected: tuple[Candidate, ...] = ()
    """Pods that would have to go and are protected."""


def plan(
    pods: NodePods,
    observation: Observation | None,
    triggers: Collection[Trigger],
    policy: EvictionPolicy,
    may_go: Callable[[Candidate], bool],
) -> Plan:
    """Choose the next pod; `may_go` is False for one that has to wait.

    `observation` is not read where every Mid pod has to go.
    """
    whole = next((trigger for trigger in shortage.WHOLE_NODE if trigger in triggers), None)
    need = {} if whole or observation is None else needed(pods, observation, triggers, policy)
    causes = (whole,) if whole else tuple(sorted(_triggers_of(need)))
    if not causes:
        return Plan(None, (), {}, "what is short is free once the pods that terminate are gone")
    useful = [pod for pod in pods.staying if not need or victims.gain(pod, need) > 0]
    order = victims.in_order(pods.staying, need, may_go)
    protected = tuple(pod for pod in useful if pod.protected)
    if order:
        return Plan(order[0], causes, need, protected=protected)
    waiting = len(useful) - len(protected)
    text = (
        f"{len(protected)} Mid pods are protected, {waiting} wait after a refusal" if useful else "no Mid pod is left"
    )
    return Plan(None, causes, need, text, protected)


def needed(
    pods: NodePods, observation: Observation, triggers: Collection[Trigger], policy: EvictionPolicy
) -> dict[str, int]:
    """Return what is to be freed for the shortages that last; a resource that is not short is absent."""
    need = {}
    for mid in names.MID_RESOURCES:
        if shortage.TRIGGER_OF[mid] in triggers:
            excess = min(observation.allocated[mid], pods.requested(mid)) - observation.calculated[mid]
            if excess > 0:
                need[mid] = excess
    if Trigger.NODE_MEMORY in triggers and policy.memory_threshold_percent and observation.memory_used is not None:
        used = observation.memory_used - sum(pod.memory_used for pod in pods.leaving)
        excess = shortage.memory_to_release(observation.memory_capacity, used, policy.memory_threshold_percent)
        if excess > 0:
            need[MEMORY_IN_USE] = excess
    return need


def _triggers_of(need: Need) -> set[Trigger]:
    return {Trigger.NODE_MEMORY if what == MEMORY_IN_USE else shortage.TRIGGER_OF[what] for what in need}
