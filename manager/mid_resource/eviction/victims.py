"""Order in which the Mid pods of a node are evicted. Pure.

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

from collections.abc import Callable, Iterable, Mapping

from manager.mid_resource.eviction.pod_view import Candidate

Need = Mapping[str, int]
"""What is to be freed: Mid names -> amount, or MEMORY_IN_USE -> bytes."""
MEMORY_IN_USE = "memory-in-use"


def in_order(staying: Iterable[Candidate], need: Need, may_go: Callable[[Candidate], bool]) -> list[Candidate]:
    """Return the pods that may go and free something that is needed, the first to be evicted first."""
    by_namespace: dict[str, list[Candidate]] = {}
    for pod in staying:
        if not need or gain(pod, need) > 0:
            by_namespace.setdefault(pod.namespace, []).append(pod)
    namespaces = sorted(by_namespace.values(), key=lambda of: _namespace_key(of, need))
    return [
        pod
        for of_namespace in namespaces
        for pod in sorted(of_namespace, key=lambda each: _pod_key(each, need))
        if not pod.protected and may_go(pod)
    ]


def _namespace_key(of_namespace: list[Candidate], need: Need) -> tuple[object, ...]:
    first = min(
        (min(pod.eviction_priority, 0), pod.priority, min(pod.sub_priority, pod.priority), -pod.memory_over)
        for pod in of_namespace
    )
    held = sum(freed(pod, what) / amount for pod in of_namespace for what, amount in need.items())
    return (*first, -held, of_namespace[0].namespace)


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
