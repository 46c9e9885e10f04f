"""What decisions need to know of one pod, derived once from its object.

A pod that is assigned to a node is kept as an `AssignedPod` (a few numbers), not as the object: at 450,000 pods the
objects alone would not fit.
"""

from __future__ import annotations

import functools
from typing import Final

import msgspec

from api_types import names
from api_types.kubernetes import pods, priority_and_qos, quantities, times
from scheduler_plugin.state import estimator, node_metric_decoder, pod_resources
from scheduler_plugin.state.estimator import EstimatorArgs, Vector
from scheduler_plugin.state.pod_resources import PodResources

_PINNING_OWNERS: Final = frozenset({"DaemonSet", "Node"})
_SIGNATURE_BITS: Final = 2**60 - 1  # one bit more, and each integer takes 16 bytes more


class PodInfo(msgspec.Struct, frozen=True, gc=False):
    """One pod, as the policies see it."""

    uid: str
    key: str
    """As reports name it: `node_metric_intake.pod_key`."""
    is_prod: bool
    is_pinned: bool
    """Meant for its node and no other: of a DaemonSet, or a static pod, which the Node itself owns."""
    estimate: Vector | None
    """Estimated usage; None where estimating failed."""
    mid_cpu_millis: int = 0
    mid_memory_bytes: int = 0
    demand: PodResources | None = None
    """What it declares; None where no policy asks, or its spec cannot be read."""


class AssignedPod(msgspec.Struct, frozen=True, gc=False):
    """A pod that counts on a node."""

    uid: str
    key: str
    """As reports name it: `node_metric_intake.pod_key`."""
    is_prod: bool
    estimate: Vector | None
    """The estimate that counts: None where it failed or is zero in every resource."""
    mid_cpu_millis: int
    mid_memory_bytes: int
    timestamp: float
    """When it was assigned, seconds since the epoch."""
    forced_until: float | None
    signature: int
    """Of all that an update may change (spec and conditions): equal means nothing to do."""
    confirmed: bool
    """Whether the watch showed it there; until then only the bind notice did."""
    demand: PodResources | None = None
    """What it declares; None where no policy asks, or its spec cannot be read."""


def read(pod: pods.Pod, policy: EstimatorArgs) -> PodInfo:
    """Derive the facts of a pod."""
    try:
        requests = pods.requests(pod.spec)
        priority_class = priority_and_qos.priority_class(pod)
        is_prod = priority_class is priority_and_qos.PriorityClass.PROD
        estimate = _shared(policy.vector(estimator.estimate(pod, policy, priority_class, requests)))
        demand = pod_resources.read(pod.spec) if policy.with_demand else None
    except quantities.InvalidQuantity:
        requests, is_prod, estimate, demand = {}, False, None, None
    return PodInfo(
        uid=pod.metadata.uid,
        key=key(pod),
        is_prod=is_prod,
        is_pinned=is_pinned(pod),
        estimate=estimate,
        mid_cpu_millis=estimator.cut(requests.get(names.MID_CPU, 0)),
        mid_memory_bytes=estimator.cut(requests.get(names.MID_MEMORY, 0)),
        demand=demand,
    )


def key(pod: pods.Pod) -> str:
    """What a pod is known by, as reports name it."""
    return node_metric_decoder.pod_key(pod.metadata.namespace, pod.metadata.name)


def is_pinned(pod: pods.Pod) -> bool:
    """Whether a pod is meant for its node and no other."""
    return any(owner.kind in _PINNING_OWNERS for owner in pod.metadata.owner_references or ())


@functools.lru_cache(maxsize=4096)
def _shared(vector: Vector) -> Vector:
    """Give equal vectors one object: pods of one workload are many."""
    return vector


def counts_on_its_node(pod: pods.Pod) -> bool:
    """Whether an assigned pod uses anything: terminal pods and reservation placeholders do not."""
    is_placeholder = pods.annotations_of(pod.metadata).get(names.ANNOTATION_RESERVE_POD) == "true"
    return not pods.is_terminal(pod) and not is_placeholder


def assigned(pod: pods.Pod, policy: EstimatorArgs, now: float, *, confirmed: bool) -> AssignedPod:
    """Record of a pod that was just put on a node, or seen there: stamped by its PodScheduled condition, else now."""
    scheduled_at = true_since(pod, "PodScheduled")
    timestamp = now if scheduled_at is None else scheduled_at
    facts = read(pod, policy)
    return AssignedPod(
        uid=facts.uid,
        key=facts.key,
        is_prod=facts.is_prod,
        estimate=facts.estimate if facts.estimate and any(facts.estimate) else None,
        mid_cpu_millis=facts.mid_cpu_millis,
        mid_memory_bytes=facts.mid_memory_bytes,
        timestamp=timestamp,
        forced_until=estimator.forced_until(pod, policy, timestamp, true_since(pod, "Initialized")),
        signature=signature(pod),
        confirmed=confirmed,
        demand=facts.demand,
    )


def signature(pod: pods.Pod) -> int:
    """Hash of what makes an update of an assigned pod worth looking at: its spec and its conditions.

    Labels and annotations are left out as upstream does: they are read when the pod is assigned.
    """
    return hash(msgspec.json.encode((pod.spec, pod.status.conditions))) & _SIGNATURE_BITS


def true_since(pod: pods.Pod, condition_type: str) -> float | None:
    """Moment since which a condition is True; None where it is not, or does not say since when."""
    for condition in pod.status.conditions or ():
        if condition.type == condition_type and condition.status == "True":
            return times.epoch_seconds_or_none(condition.last_transition_time)
    return None
