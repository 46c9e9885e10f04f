"""What the agent needs from the cluster, and a standalone machine in place of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from api_types.node_metric import types as node_metric
from koordlet.cluster.pods import PodTable
from koordlet.prediction.allocation import WholeAmounts


class ClusterState(Protocol):
    """The cluster as the observer and the report builder read it."""

    pods: PodTable
    spec: node_metric.NodeMetricSpec
    generation: int | None
    may_lack_pods: bool
    """Whether a machine may have no pod group at all, so that all of its usage is system usage."""
    reservation_problem: str | None
    """Why `allocatable` lacks the resources that an annotation of the node reserves."""
    spec_problem: str | None
    """Why the newest spec is ignored, and the previous one stays in force."""

    @property
    def unreadable(self) -> Mapping[tuple[str, str], str]:
        """Reason of each object whose newest state cannot be decoded, by kind and name."""

    @property
    def allocatable(self) -> WholeAmounts | None:
        """CPU and memory that the node leaves to pods, None while unknown."""

    @property
    def capacity(self) -> WholeAmounts | None:
        """Capacity of the node, None while unknown."""


class NoCluster:
    """A standalone machine: no pod is bound to it and nothing is reserved."""

    def __init__(self, capacity: Callable[[], WholeAmounts | None]) -> None:
        self.pods = PodTable()
        self.pods.keep_only(())
        self.spec = node_metric.NodeMetricSpec()
        self.generation: int | None = None
        self.may_lack_pods = True
        self.reservation_problem: str | None = None
        self.spec_problem: str | None = None
        self.unreadable: dict[tuple[str, str], str] = {}
        self._capacity = capacity

    @property
    def allocatable(self) -> WholeAmounts | None:
        """Capacity of the machine."""
        return self._capacity()

    @property
    def capacity(self) -> WholeAmounts | None:
        """CPUs and memory of the machine."""
        return self._capacity()
