"""Requests of the pods charged to Prod, and the reclaimable part of them, in exact integers.

    Reclaimable = max(0, min( Allocated[Prod] - Peak[Prod],  NodeAllocatable - Peak[Prod] ))

The manager applies its own ratios to it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Final, NamedTuple, Self

import msgspec
import numpy as np

from api_types.kubernetes.priority_and_qos import PriorityClass
from koordlet.metric_cache.series import counted_class
from koordlet.prediction.histogram_bank import FloatArray
from koordlet.prediction.usage_models import UsageModels
from koordlet.samples import Amount, Resource, SeriesKey, pod_key

_UNLIMITED: Final = 2**62
_MOST_DIGITS: Final = 10
# Floating-point noise of a sum, in steps of the result: 0.55 core is 550.0000000000001 millicores, and means 550.
_NOISE: Final = 1e-6


class Owner(NamedTuple):
    """The controller of a pod, as the pod names it."""

    namespace: str
    kind: str
    uid: str
    ordinal: int | None = None
    """Number of the pod in its StatefulSet: each has its own usage."""

    @classmethod
    def of_pod(cls, namespace: str, pod: str, kind: str, uid: str) -> Self:
        """Return the controller of a pod by its name, which ends in the ordinal in a StatefulSet."""
        number = pod.rpartition("-")[2] if kind == "StatefulSet" else ""
        is_ordinal = number.isascii() and number.isdigit() and len(number) < _MOST_DIGITS
        return cls(namespace, kind, uid, int(number) if is_ordinal else None)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChargedPod:
    """What a prediction reads of a pod bound to this node. Requests are in millicores, bytes and Mid units."""

    uid: str
    """UID in the names of its cgroups: its own, or for a static pod the hash in its mirror pod."""
    priority_class: PriorityClass
    """With the default applied; NONE counts as Prod."""
    cpu_request_millis: int
    memory_request_bytes: int
    mid_cpu_request_millis: int
    mid_memory_request_bytes: int
    cpu_limit_millis: int | None
    """CPU that it may use, None where a container has no limit."""
    is_admitted: bool
    """Whether the kubelet has taken the pod and it has not ended. A pod in deletion still runs and counts."""
    is_terminated: bool
    """Whether the phase is Succeeded or Failed."""
    owner: Owner | None = None
    """None for a pod without a controller, and for a static one."""

    @property
    def key(self) -> SeriesKey:
        """Series of its usage."""
        return pod_key(self.uid)

    def request(self, resource: Resource) -> float:
        """Return the native request of one resource in the unit of usage."""
        return self.cpu_request_millis / 1000 if resource is Resource.CPU else float(self.memory_request_bytes)


class WholeAmounts(NamedTuple):
    """An amount of each resource in the units of the API server: whole millicores and bytes."""

    cpu_millis: int
    memory_bytes: int

    def in_cores_or_bytes(self, resource: Resource) -> float:
        """Return the amount of one resource in the unit of usage."""
        return self.cpu_millis / 1000 if resource is Resource.CPU else float(self.memory_bytes)


def charged_to_prod(pods: Iterable[ChargedPod]) -> list[ChargedPod]:
    """Return the pods that the kubelet has taken and that count as Prod, each UID once."""
    prod = {pod.uid: pod for pod in pods if pod.is_admitted and counted_class(pod.priority_class) == PriorityClass.PROD}
    return list(prod.values())


def allocated_to_prod(pods: Iterable[ChargedPod]) -> WholeAmounts:
    """Return Allocated[Prod]: the native requests of the pods charged to Prod."""
    return requested_by(charged_to_prod(pods))


def allocated_to_mid(pods: Iterable[ChargedPod]) -> WholeAmounts:
    """Return Allocated[Mid]: the Mid requests of all pods that the kubelet has taken, each UID once."""
    admitted = {pod.uid: pod for pod in pods if pod.is_admitted}.values()
    return WholeAmounts(
        sum(pod.mid_cpu_request_millis for pod in admitted), sum(pod.mid_memory_request_bytes for pod in admitted)
    )


def requested_by(pods: Iterable[ChargedPod]) -> WholeAmounts:
    """Return the sum of the native requests."""
    chosen = list(pods)
    return WholeAmounts(sum(pod.cpu_request_millis for pod in chosen), sum(pod.memory_request_bytes for pod in chosen))


def cpu_limits(pods: Iterable[ChargedPod]) -> FloatArray:
    """Return the CPU limit of each pod in cores, infinite where it has none."""
    millis = [math.inf if pod.cpu_limit_millis is None else pod.cpu_limit_millis for pod in pods]
    return np.array(millis, float) / 1000


_Size = Annotated[int, msgspec.Meta(ge=0)]


class PodSize(msgspec.Struct, array_like=True, frozen=True):
    """What a pod may count on, and what it could count on while its history was recorded."""

    now: tuple[_Size, _Size, _Size]
    """CPU request, CPU limit, memory request."""
    proven: tuple[_Size, _Size, _Size]
    """The same of before the rises since which too little was recorded."""
    since_seconds: Amount
    """Recorded time of the pod at the last change."""

    @property
    def rise(self) -> WholeAmounts:
        """Return what the rises added; a limit that was removed adds nothing."""
        cpu, limit, memory = (now - proven for now, proven in zip(self.now, self.proven, strict=True))
        return WholeAmounts(max(cpu, 0 if self.now[1] == _UNLIMITED else limit), memory)


class PodSizes:
    """Rises of requests and limits: usage of before proves nothing about the added part, which is charged."""

    def __init__(self) -> None:
        self.by_uid: dict[str, PodSize] = {}
        self.exclusive: Mapping[str, int] = {}
        """Millicores of the CPUs that a pod has for itself alone, by UID."""

    def follow(self, pods: Sequence[ChargedPod], models: UsageModels, cold_start_period_seconds: float) -> None:
        """Note the sizes of all Prod pods that have a model."""
        modelled = [pod for pod in pods if pod.key in models]
        recorded_seconds = models.recorded_seconds([pod.key for pod in modelled]).tolist()
        before, self.by_uid = self.by_uid, {}
        for pod, recorded in zip(modelled, recorded_seconds, strict=True):
            limit = _UNLIMITED if pod.cpu_limit_millis is None else pod.cpu_limit_millis
            now = pod.cpu_request_millis, limit, pod.memory_request_bytes
            size = before.get(pod.uid)
            if size is None:
                size = PodSize(now, now, recorded)
            elif size.now != now or recorded < size.since_seconds:
                is_proven = recorded - size.since_seconds >= cold_start_period_seconds
                proven = size.now if is_proven else size.proven
                size = PodSize(now, tuple(map(min, proven, now)), recorded)  # type: ignore[arg-type]
            self.by_uid[pod.uid] = size

    def exclusive_millis(self, pod: ChargedPod) -> int:
        """Return the millicores of the CPUs that a pod has for itself alone."""
        return self.exclusive.get(pod.uid, getattr(pod, "exclusive_cpu_millis", 0))

    def added(
        self, warm: Sequence[ChargedPod], models: UsageModels, cold_start_period_seconds: float
    ) -> dict[str, WholeAmounts]:
        """Return what is charged beside the history of warm pods, by UID.

        That is what rises gave to them since too short a time, and exclusive CPUs that they do not use: no other pod,
        of whatever class, may run there.
        """
        owned = {pod.uid: self.exclusive_millis(pod) for pod in warm}
        sizes = {uid: size for uid in owned if (size := self.by_uid.get(uid)) and size.now != size.proven}
        charged = [uid for uid, millis in owned.items() if millis or uid in sizes]
        keys = [pod_key(uid) for uid in charged]
        recorded, used = models.recorded_seconds(keys).tolist(), np.nan_to_num(models.newest_values(Resource.CPU, keys))
        added = {}
        for uid, seconds, cores in zip(charged, recorded, used.tolist(), strict=True):
            idle = max(owned[uid] - math.floor(cores * 1000), 0)
            is_new = uid in sizes and seconds - sizes[uid].since_seconds < cold_start_period_seconds
            cpu, memory = sizes[uid].rise if is_new else WholeAmounts(0, 0)
            added[uid] = WholeAmounts(max(cpu, idle), memory)
        return {uid: amounts for uid, amounts in added.items() if any(amounts)}


def charged_while_cold(pods: Sequence[ChargedPod], resource: Resource, usage_now: FloatArray) -> float:
    """Return C in the unit of usage: for each pod the larger of its request and its usage, NaN while unknown."""
    requests = np.array([pod.request(resource) for pod in pods], float)
    excess = np.fmax(usage_now - requests, 0.0)
    return requested_by(pods).in_cores_or_bytes(resource) + float(np.sum(excess))


def whole_peak(cpu_cores: float, memory_bytes: float) -> WholeAmounts:
    """Round a predicted peak up to whole millicores and bytes."""
    return WholeAmounts(math.ceil(cpu_cores * 1000 - _NOISE), math.ceil(memory_bytes - _NOISE))


def prod_reclaimable(allocated: WholeAmounts, peak: WholeAmounts, allocatable: WholeAmounts) -> WholeAmounts:
    """Return the reclaimable amount of each resource from Allocated[Prod], Peak[Prod] and the node's allocatable."""
    return WholeAmounts(*(max(0, min(a, n) - p) for a, p, n in zip(allocated, peak, allocatable, strict=True)))
