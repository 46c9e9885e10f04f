"""Which pods of the node are charged to which class, and what they request, in exact integers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, Protocol

from api_types.kubernetes.priority_and_qos import PriorityClass
from koordlet.metric_cache.series import counted_class
from koordlet.samples import Resource


class PodOnNode(Protocol):
    """What a prediction needs to know of a pod that is bound to this node."""

    @property
    def uid(self) -> str:
        """UID in the name of the pod's cgroup, which is the identity of its series."""

    @property
    def priority_class(self) -> PriorityClass:
        """Class with default; NONE counts as Prod."""

    @property
    def cpu_request_millis(self) -> int:
        """Effective native CPU request."""

    @property
    def memory_request_bytes(self) -> int:
        """Effective native memory request."""

    @property
    def is_terminated(self) -> bool:
        """Succeeded or Failed. A pod that is only being deleted still runs and counts."""


class WholeAmounts(NamedTuple):
    """An amount of each resource in the units the apiserver is told: whole millicores and bytes."""

    cpu_millis: int
    memory_bytes: int

    def in_cores_or_bytes(self, resource: Resource) -> float:
        """One of the two in the unit of usage."""
        return self.cpu_millis / 1000 if resource is Resource.CPU else float(self.memory_bytes)


def charged_to_prod(pods: Iterable[PodOnNode]) -> list[PodOnNode]:
    """Pods that run and count as Prod, each UID once."""
    running = {pod.uid: pod for pod in pods if not pod.is_terminated}
    return [pod for pod in running.values() if counted_class(pod.priority_class) == PriorityClass.PROD]


def requested_by(pods: Iterable[PodOnNode]) -> WholeAmounts:
    """Sum of the native requests."""
    chosen = list(pods)
    return WholeAmounts(sum(pod.cpu_request_millis for pod in chosen), sum(pod.memory_request_bytes for pod in chosen))
