"""Count the Mid resources that each namespace holds, against its quota. Pure.

A namespace holds the `mid-*` requests of its pods that

    are bound, also by another scheduler       until they end or are deleted; a terminating pod counts until it is gone
    are assumed on a node                      from the choice of the node until they are bound or given up

Waiting pods hold nothing: a ResourceQuota counts them from their creation, this quota from their placement.

The quota is that of the annotation of the Namespace, else the default one. A malformed annotation permits nothing new.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from api_types.mid_pods import quota
from api_types.mid_pods.quota import MidQuota
from scheduler_plugin.state.pod_info import AssignedPod, PodAmounts


class NamespaceUse(NamedTuple):
    """What a namespace holds, and may hold."""

    held: PodAmounts
    quota: MidQuota
    problem: str
    """Why its annotation is malformed and permits nothing new; empty where it is not."""


@dataclass(slots=True)
class _NamespaceSums:
    """Mid resources of the pods of one namespace by pod key, and their sums."""

    holders: dict[str, PodAmounts] = field(default_factory=dict)
    cpu_millis: int = 0
    memory_bytes: int = 0

    def add(self, amounts: PodAmounts, sign: int) -> None:
        """Add to the sums, or subtract."""
        self.cpu_millis += sign * amounts.cpu_millis
        self.memory_bytes += sign * amounts.memory_bytes


class MidQuotas:
    """Quotas and holders by namespace."""

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

    def uses(self) -> Mapping[str, NamespaceUse]:
        """Return the use of each namespace that holds something, or has a quota of its own."""
        return {name: self.namespace_use(name) for name in self._own.keys() | self._namespaces.keys()}

    def namespace_holders(self, namespace: str) -> Mapping[str, PodAmounts]:
        """Return what each pod of a namespace holds, by pod key."""
        sums = self._namespaces.get(namespace)
        return dict(sums.holders) if sums else {}

    # pods

    def assigned(self, pod: AssignedPod) -> None:
        """Count a pod that counts on a node, in place of another one of that name."""
        self.removed(pod.key)
        if pod.mid_cpu_millis or pod.mid_memory_bytes:
            amounts = PodAmounts(max(pod.mid_cpu_millis, 0), max(pod.mid_memory_bytes, 0))
            sums = self._namespaces.setdefault(pod_namespace(pod.key), _NamespaceSums())
            sums.holders[pod.key] = amounts
            sums.add(amounts, 1)

    def removed(self, key: str) -> None:
        """Stop counting a pod that no longer counts on a node."""
        namespace = pod_namespace(key)
        sums = self._namespaces.get(namespace)
        amounts = sums.holders.pop(key, None) if sums else None
        if sums is None or amounts is None:
            return
        sums.add(amounts, -1)
        if not sums.holders:
            del self._namespaces[namespace]


def pod_namespace(key: str) -> str:
    """Return the namespace of a pod key."""
    return key.partition("/")[0]
