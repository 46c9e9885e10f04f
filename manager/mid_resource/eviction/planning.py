"""Choose the pod that a node gives up next, from what its newest report and a list of its pods show. Pure.

What terminates counts as freed, also where the report of the agent still holds it. Requests count as the lower of the
report and the list, so that neither a pod that has ended since nor one that the report does not know yet makes another
one go.

Koordinator's order: the annotation eviction-priority, then the priority, then the label koordinator.sh/priority, then
the memory used beyond the request; among equals the pod that covers what is needed with the least waste.

A tenant may write that annotation and that label, and may protect pods (eviction-policy, a PodDisruptionBudget that
always refuses). So the order has two steps:

1. Namespaces, by their first pod. Here a tenant's values count only where they let its own pod go earlier, never where
   they would let a pod of another namespace go instead; among equals the namespace that holds the most goes first, so
   that neither many small pods nor a few large ones gain anything. Protected pods count in this step too.
2. Within the namespace, by the whole order, the pods that may go now.

Another namespace is next only where no pod of the first one may go.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from api_types import names
from manager.mid_resource.eviction import shortage
from manager.mid_resource.eviction.pods import Candidate, EvictablePods
from manager.mid_resource.eviction.policy import EvictionPolicy
from manager.mid_resource.eviction.shortage import Observation, Trigger

Need = Mapping[str, int]
"""What is to be freed: Mid names -> amount, or MEMORY_IN_USE -> bytes."""
MEMORY_IN_USE: Final = "memory-in-use"


@dataclass(frozen=True)
class EvictionPlan:
    """The pod that goes next, and why; without one the reason is in `nothing`."""

    victim: Candidate | None
    triggers: tuple[Trigger, ...]
    need: Need
    nothing: str = ""
    protected: tuple[Candidate, ...] = ()
    """Pods that would have to go and are protected."""


def plan(
    pods: EvictablePods,
    observation: Observation | None,
    triggers: Collection[Trigger],
    policy: EvictionPolicy,
    may_go: Callable[[Candidate], bool],
) -> EvictionPlan:
    """Choose the next pod; `may_go` is False for one that has to wait.

    `observation` is not read where every Mid pod has to go.
    """
    whole = next((trigger for trigger in shortage.WHOLE_NODE if trigger in triggers), None)
    need = {} if whole or observation is None else needed(pods, observation, triggers, policy)
    causes = (whole,) if whole else tuple(sorted(_triggers_of(need)))
    if not causes:
        return EvictionPlan(None, (), {}, "what is short is free once the pods that terminate are gone")
    useful = [pod for pod in pods.staying if not need or gain(pod, need) > 0]
    order = in_order(pods.staying, need, may_go)
    protected = tuple(pod for pod in useful if pod.protected)
    if order:
        return EvictionPlan(order[0], causes, need, protected=protected)
    waiting = len(useful) - len(protected)
    text = (
        f"{len(protected)} Mid pods are protected, {waiting} wait after a refusal" if useful else "no Mid pod is left"
    )
    return EvictionPlan(None, causes, need, text, protected)


def needed(
    pods: EvictablePods, observation: Observation, triggers: Collection[Trigger], policy: EvictionPolicy
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


def in_order(staying: Iterable[Candidate], need: Need, may_go: Callable[[Candidate], bool]) -> list[Candidate]:
    """Return the pods that may go and free something that is needed, the first to be evicted first."""
    by_namespace: dict[str, list[Candidate]] = {}
    for pod in staying:
        if not need or gain(pod, need) > 0:
            by_namespace.setdefault(pod.namespace, []).append(pod)
    namespaces = sorted(by_namespace.values(), key=lambda pods: _namespace_key(pods, need))
    return [
        pod
        for pods in namespaces
        for pod in sorted(pods, key=lambda pod: _pod_key(pod, need))
        if not pod.protected and may_go(pod)
    ]


def _namespace_key(pods: list[Candidate], need: Need) -> tuple[object, ...]:
    first = min(
        (min(pod.eviction_priority, 0), pod.priority, min(pod.sub_priority, pod.priority), -pod.memory_over)
        for pod in pods
    )
    share = sum(freed(pod, what) / amount for pod in pods for what, amount in need.items())
    return (*first, -share, pods[0].namespace)


def _pod_key(pod: Candidate, need: Need) -> tuple[object, ...]:
    return (
        pod.eviction_priority,
        pod.priority,
        pod.sub_priority,
        -pod.memory_over,
        *_fit(pod, need),
        pod.name,
        pod.uid,
    )


def _fit(pod: Candidate, need: Need) -> tuple[bool, float]:
    """Return a key that is lowest for the pod that covers the need with the least waste, else for the largest gain."""
    covers = all(freed(pod, what) >= amount for what, amount in need.items())
    return (
        (False, sum(freed(pod, what) / amount for what, amount in need.items())) if covers else (True, -gain(pod, need))
    )


def gain(pod: Candidate, need: Need) -> float:
    """Return the share of the need that a pod frees, summed over the needed resources; 0 frees nothing of it."""
    return sum(min(freed(pod, what) / amount, 1.0) for what, amount in need.items() if amount > 0)


def freed(pod: Candidate, what: str) -> int:
    """Return what the eviction of a pod frees."""
    return pod.memory_used if what == MEMORY_IN_USE else pod.requests.get(what, 0)
