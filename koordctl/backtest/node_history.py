"""Recorded usage and requests of the pods of one node, at the steps of a back-test. No I/O."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from api_types.kubernetes.priority_and_qos import PriorityClass
from koordctl.backtest.placement import SeriesStay
from koordlet.prediction.allocation import WholeAmounts
from koordlet.prediction.buckets import FloatArray
from koordlet.samples import Resource

GIB: Final = 2**30


@dataclass(frozen=True)
class BoundPod:
    """A pod bound to a node, as a prediction reads it."""

    uid: str
    priority_class: PriorityClass = PriorityClass.PROD
    cpu_request_millis: int = 1000
    memory_request_bytes: int = GIB
    mid_cpu_request_millis: int = 0
    mid_memory_request_bytes: int = 0
    cpu_limit_millis: int | None = None
    is_admitted: bool = True
    is_terminated: bool = False

    def request(self, resource: Resource) -> float:
        """Return the native request in cores or bytes."""
        return self.cpu_request_millis / 1000 if resource is Resource.CPU else float(self.memory_request_bytes)


@dataclass(frozen=True, eq=False)
class NodeHistory:
    """All pods of one node over all steps."""

    name: str
    step_seconds: int
    bound: Sequence[BoundPod]
    stays: Sequence[SeriesStay]
    """When each of `bound` runs; `series` is its row in `usage`."""
    usage: Mapping[Resource, FloatArray]
    """(rows, steps) in cores and bytes; NaN where a running pod was not measured."""
    node_usage: Mapping[Resource, FloatArray] | None = None
    """(steps,) of the whole node; without it only the pods use anything."""
    capacity: WholeAmounts | None = None
    """Upper bound of peaks; None: none."""
    allocatable: WholeAmounts | None = None
    resources: tuple[Resource, ...] = (Resource.CPU, Resource.MEMORY)
    """Resources that are recorded; usage of another is a constant."""
    warnings: tuple[str, ...] = ()
    """Of the source: the history may be incomplete."""

    @property
    def steps(self) -> int:
        """Number of steps."""
        return int(next(iter(self.usage.values())).shape[1])

    def prod(self) -> np.ndarray:
        """Return which of `bound` are charged to Prod, in the order of `bound`."""
        return np.array([pod.priority_class in (PriorityClass.PROD, PriorityClass.NONE) for pod in self.bound], bool)


def nodes_of_one_resource(  # noqa: PLR0917
    name: str,
    pods: Sequence[SeriesStay],
    used: FloatArray,
    requested: Sequence[float],
    step_seconds: int,
    resource: Resource,
) -> NodeHistory:
    """Return a node of Prod pods with usage of one resource, (series, steps) in cores or GiB, and a constant other."""
    limits = [requested[pod.series] for pod in pods]
    is_cpu = resource is Resource.CPU
    bound = [
        BoundPod(f"pod-{number}", cpu_request_millis=round(1000 * limit))
        if is_cpu
        else BoundPod(f"pod-{number}", memory_request_bytes=round(limit * GIB))
        for number, limit in enumerate(limits)
    ]
    usage = {
        Resource.CPU: used if is_cpu else np.ones_like(used),
        Resource.MEMORY: np.full_like(used, GIB) if is_cpu else used * GIB,
    }
    return NodeHistory(name, step_seconds, bound, pods, usage, resources=(resource,))
