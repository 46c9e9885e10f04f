"""The pods of a node for the eviction of Mid pods: which may go, what each holds, what its author asks for. Pure.

Mid pods are recognised by priority: a label cannot protect a pod of the Mid band, and cannot expose one of Prod. A pod
of no known class is never evicted. What a tenant writes (annotations, labels, owners) never protects more than that
tenant's own pods, see `planning`.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

import msgspec

from api_types import names
from api_types.kubernetes import pods, priority_and_qos, quantities, times
from api_types.kubernetes.priority_and_qos import BANDS, PriorityClass
from manager.mid_resource.eviction.shortage import WHOLE_NODE, Trigger

FEATURES: Final[Mapping[Trigger, str]] = {
    Trigger.MID_CPU: "CPUAllocatableEvict",
    Trigger.MID_MEMORY: "MemoryAllocatableEvict",
    Trigger.NODE_MEMORY: "MemoryEvict",
}
"""Koordinator's name for the feature of each shortage, as in `koordinator.sh/eviction-policy`."""
_EVICTABLE: Final = (PriorityClass.MID, PriorityClass.BATCH, PriorityClass.FREE)
_LONGEST_GRACE_SECONDS: Final = 100 * 365 * 24 * 3600
_INT32: Final = 2**31
_LONGEST_NUMBER: Final = 16  # characters


class ControllerReference(pods.OwnerReference, rename="camel", gc=False, frozen=True):
    """Owner of a pod."""

    controller: bool | None = None


class EvictableMetadata(pods.ObjectMeta, rename="camel", frozen=True):
    """Identity of a pod, its owners, and its grace period while it terminates."""

    deletion_grace_period_seconds: int | None = None
    owner_references: list[ControllerReference] | None = None  # type: ignore[assignment]  # a narrower item


class EvictablePod(pods.Pod, rename="camel", frozen=True):
    """A pod."""

    metadata: EvictableMetadata = EvictableMetadata()


@dataclass(frozen=True, slots=True)
class Candidate:
    """A pod that holds Mid resources, or belongs to the Mid class."""

    uid: str
    namespace: str
    name: str
    requests: Mapping[str, int]
    """Mid requests, in milli-cores and bytes."""
    priority: int
    eviction_priority: int
    """Of the annotation: a lower one goes first."""
    sub_priority: int
    """Of the label: a lower one goes first."""
    memory_used: int
    """Memory in use by the newest report, in bytes; 0 where it is not known."""
    leaving_since: dt.datetime | None = None
    """Time at which its termination began; None for a pod that stays, and where it is not known."""
    protected: str = ""
    """Why the pod is not evicted; empty for one that may be."""

    @property
    def key(self) -> str:
        """Return namespace and name."""
        return f"{self.namespace}/{self.name}"

    @property
    def memory_over(self) -> int:
        """Return the memory in use beyond the mid-memory that the pod requests."""
        return max(self.memory_used - self.requests.get(names.MID_MEMORY, 0), 0)


@dataclass(frozen=True)
class EvictablePods:
    """The pods of one node that hold Mid resources, or belong to the Mid class."""

    staying: tuple[Candidate, ...]
    leaving: tuple[Candidate, ...]
    """Pods that terminate: their resources count as free, however long their grace period is."""

    def requested(self, mid: str) -> int:
        """Return the Mid requests of the pods that stay."""
        return sum(pod.requests.get(mid, 0) for pod in self.staying)


def node_pods(
    listed: Iterable[EvictablePod],
    node_uid: str,
    usage: Mapping[str, int],
    triggers: Collection[Trigger],
    evicted: Collection[str] = (),
) -> EvictablePods:
    """Return the pods of a node that the kubelet admitted.

    `usage` is their memory in bytes by namespace/name, `evicted` has the UIDs of pods whose eviction the apiserver
    accepted, which count as leaving whatever the list shows.
    """
    staying: list[Candidate] = []
    leaving: list[Candidate] = []
    for pod in listed:
        if not pods.is_admitted(pod):
            continue
        candidate = _candidate(pod, node_uid, usage, triggers)
        if candidate is not None:
            is_leaving = pod.metadata.deletion_timestamp is not None or pod.metadata.uid in evicted
            (leaving if is_leaving else staying).append(candidate)
    return EvictablePods(tuple(staying), tuple(leaving))


def _candidate(
    pod: EvictablePod, node_uid: str, usage: Mapping[str, int], triggers: Collection[Trigger]
) -> Candidate | None:
    try:
        requested = pods.requests(pod.spec)
    except quantities.InvalidQuantity:
        return None
    mid_requests = {mid: requested[mid] for mid in names.MID_RESOURCES if requested.get(mid, 0) > 0}
    if not mid_requests and _class(pod) is not PriorityClass.MID:
        return None
    meta, priority = pod.metadata, pod.spec.priority or 0
    annotations = pods.annotation_map(meta)
    return Candidate(
        uid=meta.uid,
        namespace=meta.namespace,
        name=meta.name,
        requests=mid_requests,
        priority=priority,
        eviction_priority=_number(annotations.get(names.ANNOTATION_EVICTION_PRIORITY), 0),
        sub_priority=_number(pods.label_map(meta).get(names.LABEL_PRIORITY), priority),
        memory_used=usage.get(f"{meta.namespace}/{meta.name}", 0),
        leaving_since=_leaving_since(meta),
        protected=_protection(pod, node_uid, triggers),
    )


def _leaving_since(meta: EvictableMetadata) -> dt.datetime | None:
    ends = times.parse_rfc3339_or_none(meta.deletion_timestamp)
    grace = meta.deletion_grace_period_seconds or 0
    if ends is None or not 0 <= grace <= _LONGEST_GRACE_SECONDS:
        return None
    return ends - dt.timedelta(seconds=grace)


def _class(pod: EvictablePod) -> PriorityClass:
    """Return the class by priority; the label decides only where the priority is below all of Prod and in no band."""
    by_priority = priority_and_qos.class_of_priority(pod.spec.priority)
    if by_priority or (pod.spec.priority or 0) >= BANDS[PriorityClass.MID].highest:
        return by_priority
    return priority_and_qos.raw_priority_class(pod)


def _protection(pod: EvictablePod, node_uid: str, triggers: Collection[Trigger]) -> str:
    if _class(pod) not in _EVICTABLE:
        return f"priority {pod.spec.priority or 0} is in no class below Prod"
    if _is_static(pod, node_uid):
        return "a static pod: its kubelet starts it again"
    if _is_of_daemon_set(pod):
        return "a pod of a DaemonSet, which starts it again on this node"
    permitted = _features(pods.annotation_map(pod.metadata).get(names.ANNOTATION_EVICTION_POLICY))
    needed = {FEATURES[trigger] for trigger in triggers if trigger in FEATURES}
    if permitted is not None and needed and not set(WHOLE_NODE) & set(triggers) and not needed & permitted:
        return f"its annotation {names.ANNOTATION_EVICTION_POLICY} names none of {', '.join(sorted(needed))}"
    return ""


def _is_static(pod: EvictablePod, node_uid: str) -> bool:
    return names.ANNOTATION_MIRROR_POD in pods.annotation_map(pod.metadata) and any(
        (owner.kind, owner.uid) == ("Node", node_uid) for owner in pod.metadata.owner_references or ()
    )


def _is_of_daemon_set(pod: EvictablePod) -> bool:
    return any(owner.kind == "DaemonSet" and owner.controller for owner in pod.metadata.owner_references or ())


def keeper(bound: Iterable[EvictablePod], node_uid: str) -> str:
    """Return namespace and name of a pod that keeps a node beside its Mid pods; empty where there is none.

    Pods that come with any node keep none. A pod counts from its binding to its end, also while it terminates. A pod
    that holds Mid resources and could not be evicted counts too, and so does one whose requests are malformed.
    """
    return next((f"{pod.metadata.namespace}/{pod.metadata.name}" for pod in bound if _keeps(pod, node_uid)), "")


def _keeps(pod: EvictablePod, node_uid: str) -> bool:
    if pods.is_terminal(pod) or _is_static(pod, node_uid) or _is_of_daemon_set(pod):
        return False
    candidate = _candidate(pod, node_uid, {}, WHOLE_NODE)
    return candidate is None or bool(candidate.protected)


def _features(text: str | None) -> frozenset[str] | None:
    """Return the features that an annotation permits; None without one, and for one that is malformed."""
    if text is None or pods.is_too_long(text):
        return None
    try:
        return frozenset(msgspec.json.decode(text, type=list[str]))
    except (msgspec.DecodeError, RecursionError):
        return None


def _number(text: str | None, default: int) -> int:
    """Parse a 32-bit integer; the default where it is absent or malformed."""
    if text is None or len(text) > _LONGEST_NUMBER:
        return default
    try:
        value = int(text)
    except ValueError:
        return default
    return value if -_INT32 <= value < _INT32 else default
