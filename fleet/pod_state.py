"""State of one pod in a snapshot, and the sums of namespaces. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from api_types import names
from api_types.kubernetes import pods, quantities
from api_types.kubernetes.priority_and_qos import PriorityClass, priority_class, translated_resource
from fleet.node_state import UNKNOWN, Amounts


@dataclass(frozen=True, slots=True)
class PodState:
    """One pod. `requests` are in the resources of its class: those of a Mid pod are Mid resources."""

    namespace: str
    name: str
    node: str
    band: str
    """prod, mid, batch or free."""
    phase: str
    requests: Amounts = UNKNOWN
    used: Amounts = UNKNOWN
    mid_held: Amounts = UNKNOWN
    """Mid resources that it holds on its node, whatever its class: the Mid guard counts them. None without a node."""

    @property
    def slack(self) -> Amounts:
        """Return what is requested and not used; None where one of both is not known."""
        return Amounts(_minus(self.requests.cpu, self.used.cpu), _minus(self.requests.memory, self.used.memory))


def _minus(one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None else one - other


def combine(pod: pods.Pod, used: Amounts) -> PodState:
    """Combine a pod and its usage."""
    band = priority_class(pod)
    requests, mid = _requests(pod, band)
    return PodState(
        namespace=pod.metadata.namespace,
        name=pod.metadata.name,
        node=pod.spec.node_name,
        band=(band or PriorityClass.PROD).removeprefix("koord-"),
        phase=pod.status.phase,
        requests=requests,
        used=used,
        mid_held=mid if pod.spec.node_name else Amounts(0, 0),
    )


def _requests(pod: pods.Pod, band: PriorityClass) -> tuple[Amounts, Amounts]:
    """Return the requests in the resources of a class, and those in Mid resources."""
    try:
        amounts = pods.requests(pod.spec)
    except quantities.InvalidQuantity:
        return UNKNOWN, UNKNOWN
    named = (translated_resource(band, names.CPU), translated_resource(band, names.MEMORY))
    cpu, memory = (amounts.get(name, 0) if name else 0 for name in named)
    return Amounts(cpu, memory), Amounts(amounts.get(names.MID_CPU, 0), amounts.get(names.MID_MEMORY, 0))


@dataclass(frozen=True, slots=True)
class NamespaceState:
    """Sums over the pods of one namespace; the usage is that of the pods whose usage is known."""

    name: str
    pods: int
    unmeasured: int
    prod_requests: Amounts
    prod_used: Amounts
    mid_requests: Amounts
    """Those of Mid pods, also of pods that wait for a node."""
    mid_held: Amounts
    """What counts for the quota: requests of Mid resources of all pods that have a node, whatever their class."""
    mid_used: Amounts
    other_used: Amounts
    mid_quota: Amounts = UNKNOWN
    """Its annotation mid-quota: nothing where that is malformed, None where it does not limit."""
    is_quota_malformed: bool = False
    is_quota_default: bool = False
    """Whether the namespace has no annotation, and `mid_quota` is the default of all."""


class _Sum:
    """Sum of the known ones of several amounts; not known where none of them is."""

    __slots__ = ("_known", "_sums", "count")

    def __init__(self) -> None:
        self.count = 0
        self._known = [0, 0]
        self._sums = [0, 0]

    def add_known(self, amounts: Amounts) -> None:
        """Add the amounts of one that was counted."""
        for index, amount in enumerate(amounts):
            if amount is not None:
                self._known[index] += 1
                self._sums[index] += amount

    @property
    def measured(self) -> int:
        """Return how many have a known CPU."""
        return self._known[0]

    def total(self) -> Amounts:
        """Return the sum."""
        return Amounts(
            *(
                value if measured or not self.count else None
                for value, measured in zip(self._sums, self._known, strict=True)
            )
        )


class _BandSums:
    """Sums of one namespace, by class: prod, mid or other."""

    __slots__ = ("mid_held", "requests", "used")

    def __init__(self) -> None:
        self.mid_held = _Sum()
        self.requests = {band: _Sum() for band in _BANDS}
        self.used = {band: _Sum() for band in _BANDS}

    def state(self, name: str, quota: Amounts | None, *, is_default: bool) -> NamespaceState:
        """Return the sums; a quota is None where it is malformed."""
        pods = sum(total_of_band.count for total_of_band in self.used.values())
        return NamespaceState(
            name=name,
            pods=pods,
            unmeasured=pods - sum(total_of_band.measured for total_of_band in self.used.values()),
            prod_requests=self.requests["prod"].total(),
            prod_used=self.used["prod"].total(),
            mid_requests=self.requests["mid"].total(),
            mid_held=self.mid_held.total(),
            mid_used=self.used["mid"].total(),
            other_used=self.used["other"].total(),
            mid_quota=Amounts(0, 0) if quota is None else quota,
            is_quota_malformed=quota is None,
            is_quota_default=is_default,
        )


_BANDS: Final = ("prod", "mid", "other")


class NamespaceSums:
    """Sums of the pods of each namespace. Pods and usages are added one by one and not kept."""

    def __init__(self) -> None:
        self._by_namespace: dict[str, _BandSums] = defaultdict(_BandSums)
        self._unmeasured: dict[int, _Sum] = {}
        """Where the usage of a pod counts, by the hash of its node and name: a fifth of the memory of the names."""

    def add(self, pod: PodState) -> None:
        """Add a pod with its usage, or with one that is not known yet."""
        band = pod.band if pod.band in _BANDS else "other"
        sums = self._by_namespace[pod.namespace]
        sums.requests[band].count += 1
        sums.requests[band].add_known(pod.requests)
        sums.mid_held.count += 1
        sums.mid_held.add_known(pod.mid_held)
        sums.used[band].count += 1
        sums.used[band].add_known(pod.used)
        if pod.used == UNKNOWN:
            self._unmeasured[hash((pod.node, pod.namespace, pod.name))] = sums.used[band]

    def add_usage(self, node: str, namespace: str, name: str, used: Amounts) -> None:
        """Add the usage of a pod that was added without one; that of any other pod is ignored."""
        awaiting = self._unmeasured.pop(hash((node, namespace, name)), None)
        if awaiting is not None:
            awaiting.add_known(used)

    def states(self, quotas: Mapping[str, Amounts | None], default: Amounts = UNKNOWN) -> list[NamespaceState]:
        """Return the namespaces in the order of their names; a quota is None where it is malformed."""
        return [
            sums.state(name, quotas.get(name, default), is_default=name not in quotas and default != UNKNOWN)
            for name, sums in sorted(self._by_namespace.items())
        ]


def total(summands: Iterable[Amounts]) -> Amounts:
    """Sum the known amounts; not known where none of several is."""
    amounts = list(summands)
    return Amounts(_total([amount.cpu for amount in amounts]), _total([amount.memory for amount in amounts]))


def _total(values: Sequence[int | None]) -> int | None:
    measured = [value for value in values if value is not None]
    return sum(measured) if measured or not values else None
