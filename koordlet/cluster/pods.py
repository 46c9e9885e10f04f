"""Pods bound to this node, with what the agent needs of them: identity, class, requests, limits, container ids.

The table follows the watch of the API server. Collecting never waits for it: a cgroup has the pod's UID in its name,
and the two are joined by that UID. The UID in the cgroup of a static pod is a hash that an annotation of its mirror pod
has. Any author of a pod may write that annotation, so it is used only where no other pod has a claim to that UID.
"""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from api_types import names
from api_types.kubernetes import pods, quantities
from api_types.kubernetes import priority_and_qos as pq
from api_types.mid_pods import cpu_limits
from api_types.node_metric import types as node_metric
from koordlet.prediction.allocation import ChargedPod, Owner, WholeAmounts

_EXCLUSIVE: Final = (pq.QoSClass.LSE, pq.QoSClass.LSR)


@dataclass(frozen=True, slots=True, kw_only=True)
class PodOnNode(ChargedPod):
    """A pod bound to this node."""

    namespace: str
    name: str
    qos_class: pq.QoSClass
    container_ids: frozenset[str]
    """Ids of the named containers, without the prefix of the runtime, as in the names of their cgroups."""
    static_uid: str | None = None
    """Hash of the static pod that this pod claims to mirror, None where it claims none."""
    mid: cpu_limits.ResizablePod | None = None
    """What may be resized of it, None where its priority is not Mid."""
    has_started: bool = True
    """Whether every main container was started at least once."""
    is_waiting: bool = False
    """Whether a main container waits to be started."""
    whole_cpus: Mapping[str, int] = field(default_factory=dict)
    """Container id -> CPUs that the kubelet's static CPU manager gives to it alone, where the node has that policy."""
    exclusive_cpu_millis: int = 0
    """CPU that Koordinator's labels reserve for the pod alone."""


def describe(pod: pods.Pod, node_name: str = "") -> PodOnNode:
    """Extract what the agent needs from a pod. Without a node name no pod is the mirror of a static one.

    An amount that cannot be read is not charged: it must not become reclaimable, and the pod's usage counts.
    """
    requests = {name: amount for name, amount in pods.requests_in_force(pod).items() if amount != quantities.UNKNOWN}
    return PodOnNode(
        uid=pod.metadata.uid,
        namespace=pod.metadata.namespace,
        name=pod.metadata.name,
        priority_class=pq.priority_class(pod),
        qos_class=pq.qos_class(pod),
        cpu_request_millis=requests.get(names.CPU, 0),
        memory_request_bytes=requests.get(names.MEMORY, 0),
        mid_cpu_request_millis=requests.get(names.MID_CPU, 0),
        mid_memory_request_bytes=requests.get(names.MID_MEMORY, 0),
        is_terminated=pods.is_terminal(pod),
        is_admitted=pods.is_admitted(pod),
        cpu_limit_millis=pods.cpu_limit_millis(pod),
        container_ids=frozenset(
            status.container_id.rpartition("://")[2]
            for status in (*(pod.status.container_statuses or ()), *(pod.status.init_container_statuses or ()))
            if status.container_id
        ),
        static_uid=_static_uid(pod, node_name),
        mid=cpu_limits.resizable_pod(pod),
        has_started=_has_started(pod),
        is_waiting=_is_waiting(pod),
        exclusive_cpu_millis=requests.get(names.CPU, 0) if pq.raw_qos_class(pod) in _EXCLUSIVE else 0,
        owner=_owner(pod),
        whole_cpus=_whole_cpus(pod) if pq.kube_qos(pod) is pq.KubeQoS.GUARANTEED else {},
    )


def _owner(pod: pods.Pod) -> Owner | None:
    """Return the controller of a pod."""
    for owner in pod.metadata.owner_references or ():
        if owner.controller and owner.kind != "Node":
            return Owner.of_pod(pod.metadata.namespace, pod.metadata.name, owner.kind, owner.uid)
    return None


def _whole_cpus(pod: pods.Pod) -> dict[str, int]:
    """Return the containers that request whole CPUs, by id."""
    ids = {status.name: status.container_id.rpartition("://")[2] for status in pod.status.container_statuses or ()}
    millis = {
        container.name: quantities.amounts(container.resources.requests or container.resources.limits).get(names.CPU, 0)
        for container in pod.spec.containers
    }
    return {
        ids[name]: amount // 1000 for name, amount in millis.items() if amount and amount % 1000 == 0 and ids.get(name)
    }


def _has_started(pod: pods.Pod) -> bool:
    """Return whether every main container was started at least once. Sidecars and init containers do not count.

    The kubelet reports the phase Pending until then, and again while init containers run after a reboot of the node;
    then the containers still have their ids. A phase that is not reported counts as started.
    """
    statuses = pod.status.container_statuses or ()
    return pod.status.phase != "Pending" or (bool(statuses) and all(status.container_id for status in statuses))


def _is_waiting(pod: pods.Pod) -> bool:
    """Return whether a main container waits: for its image, for init containers, or for the end of a backoff."""
    statuses = pod.status.container_statuses or ()
    return any(status.state is not None and status.state.waiting is not None for status in statuses)


def _static_uid(pod: pods.Pod, node_name: str) -> str | None:
    """Return the UID of the static pod of this node that the pod mirrors, None where it mirrors none.

    The kubelet creates a mirror pod with its Node as owner, both annotations equal, and reports a start time only for a
    mirror pod of a static pod that it has.
    """
    annotations = pods.annotation_map(pod.metadata)
    claimed = annotations.get(names.ANNOTATION_MIRROR_POD)
    is_mirror = bool(claimed) and annotations.get(names.ANNOTATION_STATIC_POD_HASH) == claimed
    owners = pod.metadata.owner_references or ()
    is_of_node = bool(node_name) and any(owner.kind == "Node" and owner.name == node_name for owner in owners)
    return claimed if is_mirror and is_of_node and pod.status.start_time is not None else None


class _Resolved(NamedTuple):
    """Pods that have not terminated, each with the UID of its cgroups."""

    active: Sequence[PodOnNode]
    by_uid: Mapping[str, PodOnNode]
    refused: Mapping[str, str]


class PodTable:
    """Pods bound to this node, by namespace and name."""

    def __init__(self) -> None:
        self._pods: dict[tuple[str, str], PodOnNode] = {}
        self._resolved: _Resolved | None = None
        """Read at each tick, so computed once after a change."""
        self.synced = False
        self.version = 0
        """Changes whenever a pod changes."""

    def put(self, pod: PodOnNode) -> None:
        """Add or replace a pod."""
        self._pods[pod.namespace, pod.name] = pod
        self._change()

    def drop(self, namespace: str, name: str) -> None:
        """Remove a pod; unknown pods are ignored."""
        self._pods.pop((namespace, name), None)
        self._change()

    def keep_only(self, keys: Collection[tuple[str, str]]) -> None:
        """Remove every pod that is missing in a complete list."""
        for key in self._pods.keys() - set(keys):
            del self._pods[key]
        self._change()
        self.synced = True

    def active(self) -> Sequence[PodOnNode]:
        """Return the pods that have not terminated, sorted by namespace and name."""
        return self._resolve().active

    def by_uid(self) -> Mapping[str, PodOnNode]:
        """Return the pods that have not terminated, by the UID in the names of their cgroups."""
        return self._resolve().by_uid

    @property
    def refused(self) -> Mapping[str, str]:
        """Pods whose claim to the UID of a static pod is refused, as namespace/name, each with the reason."""
        return self._resolve().refused

    def _change(self) -> None:
        self.version += 1
        self._resolved = None

    def _resolve(self) -> _Resolved:
        if self._resolved is None:
            self._resolved = _resolved(self._pods)
        return self._resolved


def _resolved(bound: Mapping[tuple[str, str], PodOnNode]) -> _Resolved:
    """Decide which pod has which UID. The pod with that UID of its own always keeps it.

    If several pods claim the UID of one static pod, none of them gets it: one is false, and its class or its requests
    must not take the place of the other's. The static pod's usage then counts as that of an unknown pod, as Prod.
    """
    owners = {pod.uid: name for name, pod in bound.items()}
    claims = collections.defaultdict(list)
    for name, pod in bound.items():
        if pod.static_uid is not None and pod.static_uid != pod.uid and not pod.is_terminated:
            claims[pod.static_uid].append(name)
    refused: dict[str, str] = {}
    for static_uid, claimants in claims.items():
        others = [owners[static_uid]] if static_uid in owners else claimants if len(claimants) > 1 else []
        for name in claimants if others else ():
            rivals = ", ".join("/".join(other) for other in sorted(others) if other != name)
            refused["/".join(name)] = (
                f"annotation {names.ANNOTATION_MIRROR_POD} claims the UID {static_uid} of {rivals}"
            )
    active = [
        pod if pod.static_uid is None or "/".join(name) in refused else dataclasses.replace(pod, uid=pod.static_uid)
        for name, pod in sorted((name, pod) for name, pod in bound.items() if not pod.is_terminated)
    ]
    return _Resolved(active, {pod.uid: pod for pod in active}, refused)


class ClusterState:
    """The cluster as the observer and the report builder read it."""

    def __init__(self, capacity: WholeAmounts | None = None) -> None:
        self.pods = PodTable()
        self.spec = node_metric.NodeMetricSpec()
        self.generation: int | None = None
        self.conditions: Sequence[node_metric.NodeMetricCondition] = ()
        """Conditions of the last report: one keeps its transition time while its status lasts, also over a restart."""
        self.may_lack_pods = False
        """Whether a machine may have no pod group at all, so that all of its usage is system usage."""
        self.capacity = capacity
        """Capacity of the node, None while unknown."""
        self.allocatable = capacity
        """Resources that the node leaves to pods: less than in its status where an annotation reserves more."""
        self.reservation_problem: str | None = None
        """Why that annotation is ignored; None when it is not."""
        self.spec_problem: str | None = None
        """Why the newest spec is ignored and the previous one stays in force; None when it is valid."""
        self.lacks_policy = False
        """Whether the spec was written without predictPolicy, and the agent has no policy of its own either."""
        self.unreadable: dict[tuple[str, str], str] = {}
        """(watch, namespace/name) of each object whose newest state cannot be decoded -> the reason."""


class NoCluster(ClusterState):
    """A standalone machine: no pod is bound to it and nothing is reserved."""

    def __init__(self, capacity: WholeAmounts | None) -> None:
        super().__init__(capacity)
        self.pods.keep_only(())
        self.may_lack_pods = True
