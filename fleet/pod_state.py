"""State of one pod in a snapshot, and the sums of namespaces. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
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
        return self.requests.minus(self.used)


def combine(pod: pods.Pod, used: Amounts) -> PodState:
    """Combine a pod and its usage."""
    band = priority_class(pod)
    requests, mid = read_requests(pod)
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


def read_requests(pod: pods.Pod) -> tuple[Amounts, Amounts]:
    """Return the requests of a pod in the resources of its class, and those in Mid resources."""
    try:
        amounts = quantities.known(pods.requests(pod.spec))
    except quantities.InvalidQuantity:
        return UNKNOWN, UNKNOWN
    named = (translated_resource(priority_class(pod), native) for native in (names.CPU, names.MEMORY))
    cpu, memory = (amounts.get(name, 0) if name else 0 for name in named)
    return Amounts(cpu, memory), Amounts(amounts.get(names.MID_CPU, 0), amounts.get(names.MID_MEMORY, 0))


@dataclass(frozen=True, slots=True)
class NamespaceState:
    """Sums over the pods of one namespace; the usage is that of the pods whose usage is known."""

    name: str
    pods: int
    unmeasured_pods: int
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
    mid_quota_malformed: bool = False
    mid_quota_is_default: bool = False
    """Whether the namespace has no annotation, and `mid_quota` is the default of all."""


class _Sum:
    """Sum of the known ones of several amounts; not known where none of them is."""

    __slots__ = ("_known", "_sums", "count")

    def __init__(self) -> None:
        self.count = 0
        self._known = [0, 0]
        self._sums = [0, 0]

    def add(self, amounts: Amounts) -> None:
        """Count one, and add what is known of it."""
        self.count += 1
        self.add_known(amounts)

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


_BANDS: Final = ("prod", "mid", "other")
_SUMMED: Final = ("prod_requests", "prod_used", "mid_requests", "mid_held", "mid_used", "other_used")
"""Fields of NamespaceState that are sums."""


class NamespaceSums:
    """Sums of the pods of each namespace. Pods and usages are added one by one and not kept."""

    def __init__(self) -> None:
        self._by_namespace: dict[str, dict[str, _Sum]] = defaultdict(lambda: defaultdict(_Sum))
        """Sums by the name of their field."""
        self._unmeasured: dict[int, _Sum] = {}
        """Where the usage of a pod counts, by the hash of its node and name: a fifth of the memory of the names."""

    def add(self, pod: PodState) -> None:
        """Add a pod with its usage, or with one that is not known yet."""
        band = pod.band if pod.band in _BANDS else "other"
        sums = self._by_namespace[pod.namespace]
        if band != "other":
            sums[f"{band}_requests"].add(pod.requests)
        sums["mid_held"].add(pod.mid_held)
        sums[f"{band}_used"].add(pod.used)
        if pod.used == UNKNOWN:
            self._unmeasured[hash((pod.node, pod.namespace, pod.name))] = sums[f"{band}_used"]

    def add_usage(self, node: str, namespace: str, name: str, used: Amounts) -> None:
        """Add the usage of a pod that was added without one; that of any other pod is ignored."""
        awaiting = self._unmeasured.pop(hash((node, namespace, name)), None)
        if awaiting is not None:
            awaiting.add_known(used)

    def states(self, quotas: Mapping[str, Amounts | None], default: Amounts = UNKNOWN) -> list[NamespaceState]:
        """Return the namespaces in the order of their names; a quota is None where it is malformed."""
        states = []
        for name, sums in sorted(self._by_namespace.items()):
            quota, used = quotas.get(name, default), [sums[f"{band}_used"] for band in _BANDS]
            pods = sum(band.count for band in used)
            states.append(
                NamespaceState(
                    name=name,
                    pods=pods,
                    unmeasured_pods=pods - sum(band.measured for band in used),
                    mid_quota=Amounts(0, 0) if quota is None else quota,
                    mid_quota_malformed=quota is None,
                    mid_quota_is_default=name not in quotas and default != UNKNOWN,
                    **{field: sums[field].total() for field in _SUMMED},
                )
            )
        return states


def total(summands: Iterable[Amounts]) -> Amounts:
    """Sum the known amounts; not known where none of several is."""
    sums = _Sum()
    for amounts in summands:
        sums.add(amounts)
    return sums.total()
