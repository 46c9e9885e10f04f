"""What a pod declares, as Trimaran's policies count it. Derived once from its spec; pods of one workload share it.

Two readings of a spec stand side by side: Kubernetes' own (sidecars and pod-level resources count, B16), and the one of
the shipped plugins (reference trimaran section 3: the larger of the containers' sum and each init container, then
overhead on requests and limits alike).
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import NamedTuple

from api_types import names
from api_types.kubernetes import pods


class Amounts(NamedTuple):
    """CPU and memory."""

    cpu_millis: int
    memory_bytes: int


class ContainerCpu(NamedTuple):
    """What one container declares, in milli-cores; None where it declares nothing."""

    request: int | None
    limit: int | None


class PodResources(NamedTuple):
    """Everything a policy may count of a pod."""

    request: Amounts
    limit: Amounts
    """As declared: 0 where there is none."""
    shipped_request: Amounts
    shipped_limit: Amounts
    containers: tuple[ContainerCpu, ...]
    sidecars: tuple[ContainerCpu, ...]
    overhead_cpu_millis: int


NOTHING = Amounts(0, 0)


def read(spec: pods.PodSpec) -> PodResources:
    """Read a spec. Raises quantities.InvalidQuantity."""
    sidecars = [container for container in spec.init_containers or () if container.restart_policy == "Always"]
    return _shared(
        PodResources(
            request=_amounts(pods.requests(spec)),
            limit=_amounts(pods.limits(spec)),
            shipped_request=_shipped(spec, lambda resources: resources.requests),
            shipped_limit=_shipped(spec, lambda resources: resources.limits),
            containers=tuple(map(_cpu, spec.containers)),
            sidecars=tuple(map(_cpu, sidecars)),
            overhead_cpu_millis=pods.units(spec.overhead).get(names.CPU, 0),
        )
    )


@functools.lru_cache(maxsize=4096)
def _shared(demand: PodResources) -> PodResources:
    return demand


def raised(limit: Amounts, request: Amounts) -> Amounts:
    """Limits that are at least the requests."""
    return Amounts(max(limit.cpu_millis, request.cpu_millis), max(limit.memory_bytes, request.memory_bytes))


def _amounts(resources: pods.Resources) -> Amounts:
    return Amounts(resources.get(names.CPU, 0), resources.get(names.MEMORY, 0))


def _shipped(spec: pods.PodSpec, read_map: Callable[[pods.ResourceRequirements], pods.QuantityMap | None]) -> Amounts:
    of_containers = [_amounts(pods.units(read_map(container.resources))) for container in spec.containers]
    of_init = [_amounts(pods.units(read_map(container.resources))) for container in spec.init_containers or ()]
    overhead = _amounts(pods.units(spec.overhead))
    cpu, memory = (
        max([sum(each[index] for each in of_containers), *(each[index] for each in of_init)]) + overhead[index]
        for index in range(2)
    )
    return Amounts(cpu, memory)


def _cpu(container: pods.Container) -> ContainerCpu:
    requests = pods.units(container.resources.requests)
    limits = pods.units(container.resources.limits)
    return ContainerCpu(requests.get(names.CPU), limits.get(names.CPU))
