"""Derive requests and limits of a pod as Trimaran's plugins count them, once from its spec; equal ones are shared.

Two sums of one spec are kept: that of Kubernetes (sidecars and pod-level resources count), and that of the shipped
Trimaran plugins (the larger of the containers' sum and each init container, then overhead on requests and limits
alike).
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Final, NamedTuple

from api_types import names
from api_types.kubernetes import pods


class PodAmounts(NamedTuple):
    """CPU and memory."""

    cpu_millis: int
    memory_bytes: int


class ContainerCpu(NamedTuple):
    """CPU request and limit of one container, in milli-cores; None if it declares none."""

    request: int | None
    limit: int | None


class PodResources(NamedTuple):
    """Everything that a plugin may count of a pod."""

    request: PodAmounts
    limit: PodAmounts
    """As declared: 0 without one."""
    shipped_request: PodAmounts
    shipped_limit: PodAmounts
    containers: tuple[ContainerCpu, ...]
    """Of more than `_MOST_CONTAINERS` a few with the same sums."""
    sidecars: tuple[ContainerCpu, ...]
    overhead_cpu_millis: int


NOTHING = PodAmounts(0, 0)
_MOST_CONTAINERS: Final = 64
"""Containers that are kept one by one: thousands fit into a pod, and the resources of thousands of pods are cached."""


def read(spec: pods.PodSpec) -> PodResources:
    """Derive the resources of a spec. Raises quantities.InvalidQuantity."""
    sidecars = [container for container in spec.init_containers or () if container.restart_policy == "Always"]
    return _shared(
        PodResources(
            request=_amounts(pods.requests(spec)),
            limit=_amounts(pods.limits(spec)),
            shipped_request=_shipped(spec, lambda resources: resources.requests),
            shipped_limit=_shipped(spec, lambda resources: resources.limits),
            containers=_few([_cpu(container) for container in spec.containers]),
            sidecars=_few([_cpu(sidecar) for sidecar in sidecars]),
            overhead_cpu_millis=pods.units(spec.overhead).get(names.CPU, 0),
        )
    )


@functools.lru_cache(maxsize=4096)
def _shared(demand: PodResources) -> PodResources:
    return demand


def raised(limit: PodAmounts, request: PodAmounts) -> PodAmounts:
    """Return limits that are at least the requests."""
    return PodAmounts(max(limit.cpu_millis, request.cpu_millis), max(limit.memory_bytes, request.memory_bytes))


def _amounts(resources: pods.Resources) -> PodAmounts:
    return PodAmounts(resources.get(names.CPU, 0), resources.get(names.MEMORY, 0))


def _shipped(
    spec: pods.PodSpec, read_map: Callable[[pods.ResourceRequirements], pods.QuantityMap | None]
) -> PodAmounts:
    of_containers = [_amounts(pods.units(read_map(container.resources))) for container in spec.containers]
    of_init = [_amounts(pods.units(read_map(container.resources))) for container in spec.init_containers or ()]
    overhead = _amounts(pods.units(spec.overhead))
    cpu, memory = (
        max([sum(amounts[index] for amounts in of_containers), *(amounts[index] for amounts in of_init)])
        + overhead[index]
        for index in range(2)
    )
    return PodAmounts(cpu, memory)


def _cpu(container: pods.Container) -> ContainerCpu:
    requests = pods.units(container.resources.requests)
    limits = pods.units(container.resources.limits)
    return ContainerCpu(requests.get(names.CPU), limits.get(names.CPU))


def _few(containers: list[ContainerCpu]) -> tuple[ContainerCpu, ...]:
    if len(containers) <= _MOST_CONTAINERS:
        return tuple(containers)
    limits = sum(container.limit for container in containers if container.limit is not None)
    requests = sum(
        container.request for container in containers if container.limit is None and container.request is not None
    )
    undeclared = [container for container in containers if container.limit is None and container.request is None]
    return ContainerCpu(None, limits), ContainerCpu(requests, None), *undeclared[:_MOST_CONTAINERS]
