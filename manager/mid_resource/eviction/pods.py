"""The pods of a node for the eviction of Mid pods: which may go, what each holds, whether only Mid pods keep it. Pure.

A label cannot protect a pod of the Mid band, and cannot expose one of Prod. What a tenant writes (annotations, labels,
owners) never protects more than that tenant's own pods, see `planning`.

The manager watches no pods. A node that may be emptied is listed when its reports show that Prod requests less there,
before it is closed, and rarely otherwise.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

import msgspec

from api_types import names
from api_types.kubernetes import pods, priority_and_qos, quantities, times
from api_types.kubernetes.priority_and_qos import PriorityClass
from api_types.node_metric.mid_eviction import MidEvictionRecord
from manager.mid_resource import decision
from manager.mid_resource.decision import Case
from manager.mid_resource.eviction.shortage import WHOLE_NODE, Trigger
from manager.mid_resource.reasons import Closed

FEATURES: Final[Mapping[Trigger, str]] = {
    Trigger.MID_CPU: "CPUAllocatableEvict",
    Trigger.MID_MEMORY: "MemoryAllocatableEvict",
    Trigger.NODE_MEMORY: "MemoryEvict",
}
"""Koordinator's name for the feature of each shortage, as in `koordinator.sh/eviction-policy`."""
_COMES_BACK: Final = "it requests no Mid resources, so nothing keeps such pods off the closed node: it came after that"
_EVICTABLE: Final = (PriorityClass.MID, PriorityClass.BATCH, PriorityClass.FREE)
_LONGEST_GRACE_SECONDS: Final = 100 * 365 * 24 * 3600
_INT32: Final = 2**31
_LONGEST_NUMBER: Final = 16  # characters


class EvictableMetadata(pods.TenantMeta, rename="camel", frozen=True):
    """Identity of a pod, its owners, and its grace period while it terminates."""

    deletion_grace_period_seconds: int | None = None


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
    """Mid requests, in milli-cores and bytes. With an unknown amount the pod counts as the one that holds the most."""
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
        requested = self.requests.get(names.MID_MEMORY, 0)
        return max(self.memory_used - (requested if requested != quantities.UNKNOWN else 0), 0)


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
    *,
    record: MidEvictionRecord | None = None,
) -> EvictablePods:
    """Return the pods of a node that the kubelet admitted; `record` is why it is closed.

    `usage` is their memory in bytes by namespace/name, `evicted` has the UIDs of pods whose eviction the apiserver
    accepted, which count as leaving whatever the list shows.
    """
    staying: list[Candidate] = []
    leaving: list[Candidate] = []
    for pod in listed:
        if not pods.is_admitted(pod):
            continue
        candidate = _candidate(pod, node_uid, usage, triggers, record)
        if candidate is not None:
            is_leaving = pod.metadata.deletion_timestamp is not None or pod.metadata.uid in evicted
            (leaving if is_leaving else staying).append(candidate)
    return EvictablePods(tuple(staying), tuple(leaving))


def _comes_back(pod: EvictablePod, triggers: Collection[Trigger], record: MidEvictionRecord | None) -> bool:
    """Check whether the eviction of a pod without Mid requests would only make room for the next one of its kind."""
    closed_since = times.parse_rfc3339_or_none(record.since if record else None)
    created = times.parse_rfc3339_or_none(pod.metadata.creation_timestamp)
    if closed_since is None or created is None or Trigger.LEAVING in triggers:
        return False
    return created > closed_since - decision.CLOCK_TOLERANCE


def _candidate(
    pod: EvictablePod,
    node_uid: str,
    usage: Mapping[str, int],
    triggers: Collection[Trigger],
    record: MidEvictionRecord | None = None,
) -> Candidate | None:
    requested = pods.requests(pod.spec)
    mid_requests = {mid: requested[mid] for mid in names.MID_RESOURCES if requested.get(mid, 0) > 0}
    if not mid_requests and priority_and_qos.priority_class(pod) is not PriorityClass.MID:
        return None
    comes_back = not mid_requests and _comes_back(pod, triggers, record)
    meta, priority = pod.metadata, pod.spec.priority or 0
    annotations = pods.annotation_map(meta)
    return Candidate(
        uid=meta.uid, namespace=meta.namespace, name=meta.name, requests=mid_requests, priority=priority,
        eviction_priority=_number(annotations.get(names.ANNOTATION_EVICTION_PRIORITY), 0),
        sub_priority=_number(pods.label_map(meta).get(names.LABEL_PRIORITY), priority),
        memory_used=usage.get(f"{meta.namespace}/{meta.name}", 0), leaving_since=_leaving_since(meta),
        protected=_protection(pod, node_uid, triggers) or (_COMES_BACK if comes_back else ""),
    )  # fmt: skip


def _leaving_since(meta: EvictableMetadata) -> dt.datetime | None:
    ends = times.parse_rfc3339_or_none(meta.deletion_timestamp)
    grace = meta.deletion_grace_period_seconds or 0
    if ends is None or not 0 <= grace <= _LONGEST_GRACE_SECONDS:
        return None
    return ends - dt.timedelta(seconds=grace)


def _protection(pod: EvictablePod, node_uid: str, triggers: Collection[Trigger]) -> str:
    if priority_and_qos.priority_class(pod) not in _EVICTABLE:
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
    that holds Mid resources and could not be evicted counts too.
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


_LEFT_ALONE: Final = frozenset({Closed.FROZEN, Closed.LEAVING, Closed.CORDONED})
FIRST_PAUSE: Final = dt.timedelta(hours=1)
LONGEST_PAUSE: Final = dt.timedelta(days=1)
REMOVED_WITHIN: Final = dt.timedelta(minutes=15)
"""Time within which an autoscaler removes a node without Mid pods, or keeps it for good."""
STUCK_AFTER: Final = dt.timedelta(hours=1)
"""Time without fewer Mid pods on a closed node: budgets refuse, or others come in the place of those that leave."""
COUNTS_FOR: Final = dt.timedelta(seconds=5)
"""Age up to which a list is a reason to close a node: another pod may have been bound since."""
LISTED_AGAIN: Final = dt.timedelta(seconds=10)
CLOSED_LISTED_AGAIN: Final = dt.timedelta(seconds=60)
KEPT_LISTED_AGAIN: Final = dt.timedelta(minutes=30)
"""Time after which a node with other pods is listed again, whose reports show no fall of what Prod requests."""
UNKNOWN_LISTED_AGAIN: Final = dt.timedelta(minutes=5)
"""The same where reports do not show what Prod requests."""


@dataclass(slots=True)
class Occupancy:
    """State of one node. Times are of the manager's clock; None where there is none."""

    grace: dt.timedelta = dt.timedelta()
    refusal: str = ""
    """Why the node is never emptied; empty where it may be."""
    is_left_alone: bool = False
    """Whether the node leaves, its operator empties it, or all nodes are frozen."""
    prod: tuple[int, int] | None = None
    """Requests of Prod pods by the newest report with them, DaemonSets among them."""
    prod_when_listed: tuple[int, int] | None = None
    tried: dt.datetime | None = None
    """Time of the last list, also of one that failed."""
    listed: dt.datetime | None = None
    keeper: str = ""
    """A pod that keeps the node beside its Mid pods, as namespace and name."""
    mid_pods: tuple[Candidate, ...] = ()
    """Those that may be evicted."""
    since: dt.datetime | None = None
    """Time of the first of the lists without a keeper."""
    fewest: tuple[int, dt.datetime] | None = None
    """Fewest Mid pods since the node was closed, and the time from which there were so few."""
    pause: dt.timedelta = dt.timedelta()
    """Length of the last pause after the node was given up; it doubles with each one."""
    not_before: dt.datetime | None = None
    """End of that pause."""

    def observe(self, case: Case, grace: dt.timedelta, autoscaler: str) -> None:
        """Record a reconcile of the node."""
        self.grace = grace
        reason = decision.why_kept(case.node, autoscaler)
        self.refusal = reason or ("" if grace else "midEviction.emptyNodeSeconds is 0 now")
        self.is_left_alone = case.closed in _LEFT_ALONE
        requests = case.inputs.usable.requests if case.inputs.usable else None
        if requests is not None:
            self.prod = requests.prod.get(names.CPU, 0), requests.prod.get(names.MEMORY, 0)
        if self.refusal or self.is_left_alone:
            self.begin_again()

    def begin_again(self) -> None:
        """Forget what lists have shown, but not that the node was given up."""
        self.tried = self.listed = self.since = self.fewest = None
        self.keeper, self.mid_pods = "", ()

    def clock_set_back(self, now: dt.datetime) -> None:
        """Begin as a new leader does, with no pause that is longer than it was."""
        self.begin_again()
        self.not_before = self.not_before and min(self.not_before, now + self.pause)

    def list_shows(self, keeper: str, pods: EvictablePods, now: dt.datetime) -> None:
        """Record a list of the node's pods."""
        self.listed, self.prod_when_listed = now, self.prod
        self.keeper, self.mid_pods = keeper, tuple(pod for pod in pods.staying if not pod.protected)
        if keeper:
            self.since = self.not_before = None
            self.pause = dt.timedelta()
        elif self.since is None:
            self.since = max(now, self.not_before or now)
        count = len(self.mid_pods) + len(pods.leaving)
        if self.fewest is None or count < self.fewest[0]:
            self.fewest = count, now

    def leave_alone(self, now: dt.datetime) -> None:
        """Begin the grace again after a pause that doubles each time."""
        self.pause = min(max(2 * self.pause, FIRST_PAUSE), LONGEST_PAUSE)
        self.not_before = now + self.pause
        self.since = self.since and self.not_before

    def is_pressing(self, now: dt.datetime, *, is_closed: bool) -> bool:
        """Check whether the node is to be listed now, before others."""
        if self.refusal or self.is_left_alone or (self.tried is not None and now - self.tried < LISTED_AGAIN):
            return False
        before = self.prod_when_listed
        if is_closed:
            rose = self.prod and before and any(new > old for new, old in zip(self.prod, before, strict=True))
            return bool(rose) or self.tried is None or now - self.tried >= CLOSED_LISTED_AGAIN
        if self.since is not None:
            return now - self.since >= self.grace
        fell = self.prod and before and any(new < old for new, old in zip(self.prod, before, strict=True))
        return bool(fell)

    def is_old(self, now: dt.datetime) -> bool:
        """Check whether the last list is old enough to be renewed, whatever the reports show."""
        if self.refusal or self.is_left_alone or self.since is not None:
            return False
        again = UNKNOWN_LISTED_AGAIN if self.prod is None else KEPT_LISTED_AGAIN
        return self.tried is None or now - self.tried >= (again if self.listed else LISTED_AGAIN)

    def is_due(self, now: dt.datetime) -> bool:
        """Check whether only Mid pods have kept the node for its grace, by a list that was just made."""
        if self.refusal or self.is_left_alone or self.since is None or self.listed is None or not self.mid_pods:
            return False
        return now - self.listed <= COUNTS_FOR and self.listed - self.since >= self.grace

    def is_waiting(self) -> bool:
        """Check whether only Mid pods keep the node."""
        return self.since is not None and bool(self.mid_pods) and not self.refusal

    def why_reopened(self, now: dt.datetime) -> str:
        """Return why a closed node opens again; empty where it stays closed."""
        if self.refusal or self.is_left_alone:
            return self.refusal
        if self.keeper:
            return f"the pod {self.keeper} runs there"
        if self.fewest is None:
            return ""
        pods, since = self.fewest
        if pods:
            minutes = STUCK_AFTER.total_seconds() / 60
            stuck = f"its Mid pods stayed, or others came, for {minutes:g} minutes"
            return stuck if now - since >= STUCK_AFTER else ""
        minutes = REMOVED_WITHIN.total_seconds() / 60
        return f"no autoscaler has removed it within {minutes:g} minutes" if now - since >= REMOVED_WITHIN else ""


def requested(mid_pods: Iterable[Candidate]) -> tuple[int, int]:
    """Return the sum of the Mid requests: CPU in milli-cores, memory in bytes."""
    cpu, memory = names.MID_RESOURCES
    listed = list(mid_pods)
    return sum(pod.requests.get(cpu, 0) for pod in listed), sum(pod.requests.get(memory, 0) for pod in listed)
