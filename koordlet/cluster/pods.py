"""Pods bound to this node, with what the agent needs of them: identity, class, requests, container ids.

The table follows the watch of the API server. Collecting never waits for it: a cgroup has the pod's UID in its name,
and the two are joined by that UID.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from api_types import names
from api_types.kubernetes import pods
from api_types.kubernetes import priority_and_qos as pq


@dataclass(frozen=True, slots=True)
class PodOnNode:
    """A pod bound to this node. Requests are in millicores and bytes, Mid requests in the units of Mid resources."""

    uid: str
    """UID in the names of its cgroups: its own, or for a static pod the hash in its mirror pod."""
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
    """Ids of the named containers, without the prefix of the runtime, as in the names of their cgroups."""


def describe(pod: pods.Pod) -> PodOnNode:
    """Extract what the agent needs from a pod."""
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
    """Pods bound to this node, by namespace and name."""

    def __init__(self) -> None:
        self._pods: dict[tuple[str, str], PodOnNode] = {}
        self.synced = False
        self.version = 0
        """Changes whenever a pod changes."""

    def put(self, pod: PodOnNode) -> None:
        """Add or replace a pod."""
        self.version += 1
        self._pods[pod.namespace, pod.name] = pod

    def drop(self, namespace: str, name: str) -> None:
        """Remove a pod; unknown pods are ignored."""
        self.version += 1
        self._pods.pop((namespace, name), None)

    def keep_only(self, keys: Collection[tuple[str, str]]) -> None:
        """Remove every pod that is missing in a complete list."""
        self.version += 1
        for key in self._pods.keys() - set(keys):
            del self._pods[key]
        self.synced = True

    @property
    def refused(self) -> Mapping[str, str]:
        """Pods whose claim to the UID of a static pod is refused, as namespace/name, each with the reason."""
        return {}

    def active(self) -> list[PodOnNode]:
        """Return the pods that have not terminated, sorted by namespace and name."""
        return [pod for _key, pod in sorted(self._pods.items()) if not pod.is_terminated]

    def by_uid(self) -> Mapping[str, PodOnNode]:
        """Return the pods that have not terminated, by the UID in the names of their cgroups."""
        return {pod.uid: pod for pod in self._pods.values() if not pod.is_terminated}
