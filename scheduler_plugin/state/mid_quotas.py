"""Count the Mid resources that each namespace holds, against its quota. Pure.

A namespace holds the `mid-*` requests of its pods that

    are bound, also by another scheduler       until they end or are deleted; a terminating pod counts until it is gone
    are assumed                                from the bind call, as long as they count on their node: longer than
                                               other pods while the watch of bound pods is silent
    are expected                               from filter on, or nominated after a preempt call, until kube-scheduler
                                               gives the attempt up, the next filter call, the binding, or 60 s

Waiting pods hold nothing: a ResourceQuota counts them from their creation, this quota from their placement. Expected
pods make it exact in a burst: kube-scheduler sends the next filter call before the bind call of the last pod, and the
last pod may have no unique best node, on which it could be reserved.

The quota is that of the annotation of the Namespace, else the default one. A malformed annotation permits nothing new.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from api_types.mid_pods import quota
from api_types.mid_pods.quota import MidQuota
from scheduler_plugin.state.pod_info import AssignedPod, PodAmounts, PodInfo

EXPECTED_SECONDS: Final = 60.0
"""kube-scheduler holds no pod longer between filter and bind, but for volumes: those are reserved (`reservations`)."""
_SETTLING_SECONDS: Final = 0.25
"""A condition PodScheduled=False that arrives so soon belongs to the attempt before."""


class NamespaceUse(NamedTuple):
    """What a namespace holds, and may hold."""

    held: PodAmounts
    quota: MidQuota
    problem: str
    """Why its annotation is malformed and permits nothing new; empty where it is not."""


@dataclass(slots=True)
class _Holder:
    """A pod that holds Mid resources."""

    uid: str
    amounts: PodAmounts
    is_assigned: bool = False
    expected_until: float | None = None


@dataclass(slots=True)
class _NamespaceSums:
    """Holders of one namespace by pod key, and their sums."""

    holders: dict[str, _Holder] = field(default_factory=dict)
    cpu_millis: int = 0
    memory_bytes: int = 0

    def add(self, amounts: PodAmounts, sign: int) -> None:
        """Add to the sums, or subtract."""
        self.cpu_millis += sign * amounts.cpu_millis
        self.memory_bytes += sign * amounts.memory_bytes


class MidQuotas:
    """Quotas and holders by namespace. Times are monotonic seconds."""

    def __init__(self) -> None:
        self.default = quota.UNLIMITED
        """Quota of a namespace without an annotation, and of one that the watch does not show (yet)."""
        self.is_known = True
        """False until the first list of Namespaces: no new Mid pod is accepted while quotas are not known."""
        self.version = 0
        """Number of changes of quotas."""
        self._own: dict[str, MidQuota] = {}
        self._malformed: dict[str, str] = {}
        self._namespaces: dict[str, _NamespaceSums] = {}
        self._expected: dict[str, str] = {}
        """Pod key by UID, of the expected pods, oldest first."""

    # quotas

    def namespace_changed(self, name: str, text: str | None) -> str:
        """Store the annotation of a namespace, None without one; return the problem of a newly malformed one."""
        before = self._own.get(name), self._malformed.pop(name, "")
        self._own.pop(name, None)
        if text is not None:
            try:
                self._own[name] = quota.read(text, self.default)
            except quota.MalformedQuota as error:
                self._own[name] = quota.NOTHING
                self._malformed[name] = str(error)
        after = self._own.get(name), self._malformed.get(name, "")
        self.version += before != after
        return "" if before[1] else after[1]

    def keep_namespaces(self, existing: Container[str]) -> None:
        """Drop the quotas of namespaces that a new list no longer contains."""
        for name in [name for name in self._own if name not in existing]:
            self.namespace_changed(name, None)

    def namespace_use(self, namespace: str) -> NamespaceUse:
        """Return what a namespace holds, and may hold."""
        sums = self._namespaces.get(namespace, _NamespaceSums())
        amounts = PodAmounts(sums.cpu_millis, sums.memory_bytes)
        return NamespaceUse(amounts, self._own.get(namespace, self.default), self._malformed.get(namespace, ""))

    def limits(self, key: str) -> bool:
        """Return whether a pod holds something of a quota."""
        namespace = pod_namespace(key)
        sums = self._namespaces.get(namespace)
        return sums is not None and key in sums.holders and self._own.get(namespace, self.default) != quota.UNLIMITED

    def uses(self) -> Mapping[str, NamespaceUse]:
        """Return the use of each namespace that holds something, or has a quota of its own."""
        return {name: self.namespace_use(name) for name in self._own.keys() | self._namespaces.keys()}

    def namespace_holders(self, namespace: str) -> Mapping[str, PodAmounts]:
        """Return what each pod of a namespace holds, by pod key."""
        sums = self._namespaces.get(namespace)
        return {key: holder.amounts for key, holder in sums.holders.items()} if sums else {}

    # pods

    def assigned(self, pod: AssignedPod) -> None:
        """Count a pod that counts on a node, in place of another one of that name."""
        if not pod.mid_cpu_millis and not pod.mid_memory_bytes:
            self.removed(pod.key)
            return
        holder = self._hold(pod)
        holder.is_assigned = True
        if pod.observed:
            holder.expected_until = None
            self._expected.pop(pod.uid, None)

    def removed(self, key: str) -> None:
        """Stop counting a pod that no longer counts on a node; it counts on while it is expected."""
        sums = self._namespaces.get(pod_namespace(key))
        holder = sums.holders.get(key) if sums else None
        if holder is not None:
            holder.is_assigned = False
            self._drop_if_free(key, holder)

    def expect(self, pod: PodInfo, monotonic: float) -> None:
        """Count a pod that is about to be placed."""
        if pod.mid_cpu_millis or pod.mid_memory_bytes:
            holder = self._hold(pod)
            holder.expected_until = monotonic + EXPECTED_SECONDS
            self._expected.pop(pod.uid, None)
            self._expected[pod.uid] = pod.key

    def end(self, uid: str) -> None:
        """Stop expecting a pod."""
        key = self._expected.pop(uid, None)
        if key is not None:
            holder = self._namespaces[pod_namespace(key)].holders[key]
            holder.expected_until = None
            self._drop_if_free(key, holder)

    def attempt_ended(self, uid: str, monotonic: float) -> None:
        """Stop expecting a pod for which kube-scheduler found no node, if that can be its last attempt."""
        key = self._expected.get(uid)
        if key is not None:
            until = self._namespaces[pod_namespace(key)].holders[key].expected_until
            if until is not None and monotonic > until - EXPECTED_SECONDS + _SETTLING_SECONDS:
                self.end(uid)

    def expire(self, monotonic: float) -> None:
        """Stop expecting pods whose time is over."""
        for uid, key in list(self._expected.items()):
            until = self._namespaces[pod_namespace(key)].holders[key].expected_until
            if until is not None and until > monotonic:
                return
            self.end(uid)

    def _hold(self, pod: AssignedPod | PodInfo) -> _Holder:
        key, uid, namespace = pod.key, pod.uid, pod_namespace(pod.key)
        amounts = PodAmounts(max(pod.mid_cpu_millis, 0), max(pod.mid_memory_bytes, 0))
        sums = self._namespaces.setdefault(namespace, _NamespaceSums())
        holder = sums.holders.get(key)
        if holder is not None:
            sums.add(holder.amounts, -1)
            holder.amounts = amounts
        if holder is None or holder.uid != uid:
            if holder is not None:
                self._expected.pop(holder.uid, None)
            holder = sums.holders[key] = _Holder(uid, amounts)
        sums.add(amounts, 1)
        return holder

    def _drop_if_free(self, key: str, holder: _Holder) -> None:
        if holder.is_assigned or holder.expected_until is not None:
            return
        namespace = pod_namespace(key)
        sums = self._namespaces[namespace]
        del sums.holders[key]
        sums.add(holder.amounts, -1)
        if not sums.holders:
            del self._namespaces[namespace]


def pod_namespace(key: str) -> str:
    """Return the namespace of a pod key."""
    return key.partition("/")[0]
