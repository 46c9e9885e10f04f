"""Choose the pod that a node gives up next, from what its newest report and a list of its pods show. Pure.

What terminates counts as freed, also where the report of the agent still holds it. Requests count as the lower of the
report and the list, so that neither a pod that has ended since nor one that the report does not know yet makes another
one go.

Koordinator's order: the annotation eviction-priority, then the priority, then the label koordinator.sh/priority, then
the memory used beyond the request; among equals the pod that covers what is needed with the least waste.

A tenant may write that annotation and that label, and may protect pods (eviction-policy, a PodDisruptionBudget that
always refuses). So the order has steps:

1. Namespaces, by their first pod. Here a tenant's values count only where they let its own pod go earlier, never where
   they would let a pod of another namespace go instead; among equals the namespace that holds the most goes first, so
   that neither many small pods nor a few large ones gain anything. Protected pods count in this step too.
2. Within the namespace, by the whole order, the pods that may go now.
3. Another namespace where none of the first one may go, or one was refused since another one gave up a pod.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from api_types import names
from api_types.kubernetes import times
from api_types.node_metric import mid_eviction
from api_types.node_metric.mid_resource import amount
from manager.cache import store
from manager.mid_resource import decision
from manager.mid_resource.decision import STAYS, Departure
from manager.mid_resource.eviction import nodes, shortage
from manager.mid_resource.eviction import pods as pods_on_node
from manager.mid_resource.eviction.pods import Candidate, EvictablePods, Occupancy, requested
from manager.mid_resource.eviction.policy import EvictionPolicy
from manager.mid_resource.eviction.shortage import TRIGGER_OF, WHOLE_NODE, FullReport, Observation, Trigger
from manager.mid_resource.reasons import Closed

Need = Mapping[str, int]
"""What is to be freed: Mid names -> amount, or MEMORY_IN_USE -> bytes."""
Refused = Callable[[Candidate], tuple[int, int]]
"""Numbers of the last refusals of the pod's namespace and of the pod; 0 without one. A lower number goes first."""
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
    *,
    refused: Refused = lambda _: (0, 0),
) -> EvictionPlan:
    """Choose the next pod; `may_go` is False for one that has to wait.

    `observation` is not read where every Mid pod has to go.
    """
    whole = next((trigger for trigger in shortage.WHOLE_NODE if trigger in triggers), None)
    need = {} if whole or observation is None else needed(pods, observation, triggers, policy)
    short = {Trigger.NODE_MEMORY if what == MEMORY_IN_USE else TRIGGER_OF[what] for what in need}
    causes = (whole,) if whole else tuple(sorted(short))
    if not causes:
        return EvictionPlan(None, (), {}, "what is short is free once the pods that terminate are gone")
    useful = [pod for pod in pods.staying if not need or gain(pod, need) > 0]
    order = in_order(pods.staying, need, may_go, refused)
    protected = tuple(pod for pod in useful if pod.protected)
    if order:
        return EvictionPlan(order[0], causes, need, protected=protected)
    waiting = len(useful) - len(protected)
    text = f"{len(protected)} Mid pods are protected, {waiting} wait after a refusal"
    return EvictionPlan(None, causes, need, text if useful else "no Mid pod is known to hold it", protected)


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


def in_order(
    staying: Iterable[Candidate], need: Need, may_go: Callable[[Candidate], bool], refused: Refused = lambda _: (0, 0)
) -> list[Candidate]:
    """Return the pods that may go and free something that is needed, the first to be evicted first."""
    by_namespace: dict[str, list[Candidate]] = {}
    for pod in staying:
        if not need or gain(pod, need) > 0:
            by_namespace.setdefault(pod.namespace, []).append(pod)
    namespaces = sorted(by_namespace.values(), key=lambda pods: (refused(pods[0])[0], _namespace_key(pods, need)))
    return [
        pod
        for pods in namespaces
        for pod in sorted(pods, key=lambda pod: (refused(pod)[1], _pod_key(pod, need)))
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
    tenants = pod.eviction_priority, pod.priority, pod.sub_priority
    return (*tenants, -pod.memory_over, *_fit(pod, need), pod.name, pod.uid)


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
    text = f"{_ONLY_MID}{since}: {len(state.mid_pods)} Mid pods request {amounts}"
    if why_not:
        return f"{text}; the node is not emptied: {why_not}"
    return f"{text}; the node is closed for new Mid pods and emptied, so that the autoscaler removes it"


def last_eviction(node: store.StoredNode, policy: EvictionPolicy) -> Iterator[str]:
    """Yield the last eviction on a node that is closed since."""
    record = mid_eviction.eviction_record(node)
    if record is not None:
        evicted = f"evicted {record.pod} at {record.time}" if record.pod else "nothing was evicted yet"
        yield f"closed since {record.since}: {evicted} ({record.trigger})"
        yield reopens(policy, record.trigger)


def causes(node: store.StoredNode, observation: Observation | None, policy: EvictionPolicy) -> frozenset[Trigger]:
    """Return what evicts from a node now, or would if the following reports showed the same."""
    shortages = observation.shortages(policy) if observation else frozenset()
    return nodes.causes(shortages, policy, mid_eviction.eviction_record(node), decision.classify(node))


def interruption(node: store.StoredNode, observation: Observation | None, policy: EvictionPolicy) -> Iterator[str]:
    """Yield why a shortage evicts none, or why a node that was closed to be emptied is not."""
    departure, record = decision.classify(node), mid_eviction.eviction_record(node)
    if policy.mode == "off" or departure.is_leaving:
        return
    is_emptied = record is not None and record.trigger == Trigger.MID_ONLY
    is_cordoned = departure.closed is Closed.CORDONED
    if (is_emptied and policy.is_frozen) or (
        is_cordoned and (is_emptied or (observation and observation.shortages(policy)))
    ):
        why = f"the node is cordoned ({departure.cause})" if is_cordoned else "midEmergency is freeze"
        yield f"only high memory of the node evicts Mid pods: {why}"
    if policy.is_frozen:
        yield "where midEmergency is drain and not freeze, every Mid pod is evicted"


def next_eviction(
    node: store.StoredNode,
    observation: Observation | None,
    full: FullReport | None,
    listed: Iterable[pods_on_node.EvictablePod],
    policy: EvictionPolicy,
    *,
    now: dt.datetime,
) -> Iterator[str]:
    """Yield what the causes lead to. Neither report is read where every Mid pod of the node has to go."""
    bound, triggers = list(listed), causes(node, observation, policy)
    is_whole = bool(triggers & set(WHOLE_NODE))
    if not is_whole and observation and full and (fault := shortage.fault(full, observation, policy.cold_start, now)):
        yield f"no Mid pod is evicted: {fault}"
        return
    uid = node.metadata.uid
    if Trigger.MID_ONLY in triggers and (keeper := pods_on_node.keeper(bound, uid)):
        yield f"no Mid pod is evicted, and the node opens again: the pod {keeper} runs there"
        return
    usage = shortage.memory_of_pods(full) if full and not is_whole else {}
    pods = pods_on_node.node_pods(bound, uid, usage, triggers, record=mid_eviction.eviction_record(node))
    if is_whole and not pods.staying:
        return
    chosen = plan(pods, observation, triggers, policy, lambda _: True)
    if not chosen.triggers:
        yield f"no Mid pod is evicted: {chosen.nothing}"
        return
    cause = why(chosen, observation, {}, decision.classify(node))
    when = "" if is_whole else f", once {policy.reports} consecutive reports show it"
    if chosen.victim is None:
        yield f"Mid pods are to be evicted{when}, and none can be: {chosen.nothing}: {cause}"
    elif policy.evicts:
        yield f"next, {chosen.victim.key} is evicted{when}: {cause}"
    else:
        short = node.mid_status.floor_before if node.mid_status and not is_whole else ""
        since = f" since {short}" if short else ""
        yield f"next, {chosen.victim.key} would be evicted{since}: {cause}; midEviction.mode {policy.mode} evicts none"
    for pod in chosen.protected:
        yield f"protected: {pod.key}: {pod.protected}"
