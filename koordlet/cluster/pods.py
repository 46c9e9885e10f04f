"""Which pods are bound to this node, and what of them the agent needs: identity, class, requests, container names.

Kept from the apiserver's watch. Collecting never waits for it: a cgroup carries the pod's UID in its name, and the
two are joined here.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from api_types import names
from api_types.kubernetes import pods
from api_types.kubernetes import priority_and_qos as pq


@dataclass(frozen=True, slots=True)
class PodOnNode:
    """A pod bound to this node. Requests are in milli-cores and bytes, Mid requests in the tier's own units."""

    uid: str
    """UID in the names of its cgroups: its own, or for a static pod the hash its mirror pod states."""
    namespace: str
    name: str
    priority_class: pq.PriorityClass
    qos_class: pq.QoSClass
    cpu_request_millis: int
    memory_request_bytes: int
    mid_cpu_request_millis: int
    mid_memory_request_bytes: int
    is_terminated: bool
    container_ids: frozenset[str]
    """Ids of the named containers, without the runtime's prefix, as in the names of their cgroups."""


def describe(pod: pods.Pod) -> PodOnNode:
    """Boil a pod down to what the agent needs."""
    requests = pods.requests(pod.spec)
    static_uid = pods.annotations_of(pod.metadata).get(names.ANNOTATION_STATIC_POD_HASH)
    return PodOnNode(
        uid=static_uid or pod.metadata.uid,
        namespace=pod.metadata.namespace,
        name=pod.metadata.name,
        priority_class=pq.priority_class(pod),
        qos_class=pq.qos_class(pod),
        cpu_request_millis=requests.get(names.CPU, 0),
        memory_request_bytes=requests.get(names.MEMORY, 0),
        mid_cpu_request_millis=requests.get(names.MID_CPU, 0),
        mid_memory_request_bytes=requests.get(names.MID_MEMORY, 0),
        is_terminated=pods.is_terminal(pod),
        container_ids=frozenset(
            status.container_id.rpartition("://")[2]
            for status in pod.status.container_statuses or ()
            if status.container_id
        ),
    )


class PodTable:
    """The pods bound to this node, by namespace and name."""

    def __init__(self) -> None:
        self._pods: dict[tuple[str, str], PodOnNode] = {}
        self.synced = False

    def put(self, pod: PodOnNode) -> None:
        """Add a pod or replace what was known of it."""
        self._pods[pod.namespace, pod.name] = pod

    def drop(self, namespace: str, name: str) -> None:
        """Forget a pod that is gone; unknown ones are ignored."""
        self._pods.pop((namespace, name), None)

    def keep_only(self, keys: Collection[tuple[str, str]]) -> None:
        """Forget every pod that a complete list did not name."""
        for key in self._pods.keys() - set(keys):
            del self._pods[key]
        self.synced = True

    def active(self) -> list[PodOnNode]:
        """Pods that have not ended, sorted by namespace and name."""
        return [pod for _key, pod in sorted(self._pods.items()) if not pod.is_terminated]

    def by_uid(self) -> Mapping[str, PodOnNode]:
        """Pods that have not ended, by the UID in the names of their cgroups."""
        return {pod.uid: pod for pod in self._pods.values() if not pod.is_terminated}
