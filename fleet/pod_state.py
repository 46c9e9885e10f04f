"""State of one pod in a snapshot, and the sums of namespaces. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

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

    @property
    def slack(self) -> Amounts:
        """Return what is requested and not used; None where one of both is not known."""
        return Amounts(_minus(self.requests.cpu, self.used.cpu), _minus(self.requests.memory, self.used.memory))


def _minus(one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None else one - other


def state_of(pod: pods.Pod, used: Amounts) -> PodState:
    """Combine a pod and its usage."""
    band = priority_class(pod)
    return PodState(
        namespace=pod.metadata.namespace,
        name=pod.metadata.name,
        node=pod.spec.node_name,
        band=(band or PriorityClass.PROD).removeprefix("koord-"),
        phase=pod.status.phase,
        requests=_requests(pod, band),
        used=used,
    )


def _requests(pod: pods.Pod, band: PriorityClass) -> Amounts:
    try:
        found = pods.requests(pod.spec)
    except quantities.InvalidQuantity:
        return UNKNOWN
    named = (translated_resource(band, names.CPU), translated_resource(band, names.MEMORY))
    cpu, memory = (found.get(name, 0) if name else 0 for name in named)
    return Amounts(cpu, memory)


@dataclass(frozen=True, slots=True)
class NamespaceState:
    """Sums over the pods of one namespace; the usage is that of the pods whose usage is known."""

    name: str
    pods: int
    unmeasured: int
    prod_requests: Amounts
    prod_used: Amounts
    mid_requests: Amounts
    mid_used: Amounts
    other_used: Amounts
    mid_quota: Amounts = UNKNOWN
    """Its annotation mid-quota: nothing where that is malformed, None where it does not limit."""
    is_quota_malformed: bool = False


def namespaces(found: Iterable[PodState], quotas: Mapping[str, Amounts | None]) -> list[NamespaceState]:
    """Sum the pods of each namespace, in the order of the names; a quota is None where it is malformed."""
    groups: dict[str, list[PodState]] = defaultdict(list)
    for pod in found:
        groups[pod.namespace].append(pod)
    return [_namespace(name, group, quotas.get(name, UNKNOWN)) for name, group in sorted(groups.items())]


def _namespace(name: str, group: list[PodState], quota: Amounts | None) -> NamespaceState:
    prod = [pod for pod in group if pod.band == "prod"]
    mid = [pod for pod in group if pod.band == "mid"]
    other = [pod for pod in group if pod.band not in ("prod", "mid")]
    return NamespaceState(
        name=name,
        pods=len(group),
        unmeasured=sum(pod.used.cpu is None for pod in group),
        prod_requests=total(pod.requests for pod in prod),
        prod_used=total(pod.used for pod in prod),
        mid_requests=total(pod.requests for pod in mid),
        mid_used=total(pod.used for pod in mid),
        other_used=total(pod.used for pod in other),
        mid_quota=Amounts(0, 0) if quota is None else quota,
        is_quota_malformed=quota is None,
    )


def total(given: Iterable[Amounts]) -> Amounts:
    """Sum the known amounts; not known where none of several is."""
    amounts = list(given)
    return Amounts(_total([each.cpu for each in amounts]), _total([each.memory for each in amounts]))


def _total(given: Sequence[int | None]) -> int | None:
    known = [each for each in given if each is not None]
    return sum(known) if known or not given else None
