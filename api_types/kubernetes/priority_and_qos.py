"""Determine the priority class and the QoS class of a pod.

Nothing that an author may change in a running pod has a part in its class. The label of Koordinator for the class
counts at the creation alone, where the rules of `mid_pods` turn requests into Mid resources; then those count.
`spec.priorityClassName` is never read.
"""

from __future__ import annotations

import enum
from typing import Final, NamedTuple, TypeVar

import msgspec

from api_types import names
from api_types.kubernetes import pods, quantities

PodT = TypeVar("PodT", bound=pods.Pod)


class PriorityClass(enum.StrEnum):
    """Koordinator's priority class; NONE for a priority in no band."""

    __hash__ = str.__hash__  # that of an enum is a call of Python, for each pod and tick

    PROD = "koord-prod"
    MID = "koord-mid"
    BATCH = "koord-batch"
    FREE = "koord-free"
    NONE = ""


class QoSClass(enum.StrEnum):
    """Koordinator's QoS class."""

    LSE = "LSE"
    LSR = "LSR"
    LS = "LS"
    BE = "BE"
    SYSTEM = "SYSTEM"
    NONE = ""


class KubeQoS(enum.StrEnum):
    """QoS class of Kubernetes."""

    GUARANTEED = "Guaranteed"
    BURSTABLE = "Burstable"
    BEST_EFFORT = "BestEffort"


class Band(NamedTuple):
    """Numeric priorities of one class, both ends included."""

    lowest: int
    highest: int


BANDS: Final = {
    PriorityClass.PROD: Band(9000, 9999),
    PriorityClass.MID: Band(7000, 7999),
    PriorityClass.BATCH: Band(5000, 5999),
    PriorityClass.FREE: Band(3000, 3999),
}

_QOS_OF_KUBE_QOS: Final = {
    KubeQoS.GUARANTEED: QoSClass.LSR,
    KubeQoS.BURSTABLE: QoSClass.LS,
    KubeQoS.BEST_EFFORT: QoSClass.BE,
}
_NATIVE: Final = (names.CPU, names.MEMORY)


def class_of_priority(priority: int | None) -> PriorityClass:
    """Return the class whose band contains the priority; NONE without a priority and for the gaps between bands."""
    if priority is not None:
        for priority_class, band in BANDS.items():
            if band.lowest <= priority <= band.highest:
                return priority_class
    return PriorityClass.NONE


def raw_qos_class(pod: pods.Pod) -> QoSClass:
    """Return the QoS class of the pod's label; NONE for a missing or unknown label."""
    try:
        return QoSClass(pods.label_map(pod.metadata).get(names.LABEL_QOS, ""))
    except ValueError:
        return QoSClass.NONE


def kube_qos(pod: pods.Pod) -> KubeQoS:
    """Return the Kubernetes QoS class: of the status, else computed from native cpu and memory of all containers."""
    try:
        return KubeQoS(pod.status.qos_class)
    except ValueError:
        return _computed_kube_qos(pod.spec)


def _computed_kube_qos(spec: pods.PodSpec) -> KubeQoS:
    containers = [*spec.containers, *(spec.init_containers or ())]
    requests: pods.Resources = {}
    limits: pods.Resources = {}
    guaranteed = True
    for container in containers:
        for total, wire in ((requests, container.resources.requests), (limits, container.resources.limits)):
            for name, value in quantities.amounts(wire).items():
                if name in _NATIVE and value > 0:
                    total[name] = total.get(name, 0) + value
        limited = {name for name, value in quantities.amounts(container.resources.limits).items() if value > 0}
        guaranteed = guaranteed and limited.issuperset(_NATIVE)
    if not requests and not limits:
        return KubeQoS.BEST_EFFORT
    return KubeQoS.GUARANTEED if guaranteed and requests == limits else KubeQoS.BURSTABLE


def compact(pod: PodT) -> PodT:
    """Return a pod of the same class with the same requests in one container: a tenant may write thousands of them."""
    requests: pods.QuantityMap = {
        name: quantities.format_units(name, amount)
        for name, amount in pods.requests(pod.spec).items()
        if name in quantities.DECISIVE
    }
    containers = [pods.Container(resources=pods.ResourceRequirements(requests=requests))]
    spec = msgspec.structs.replace(pod.spec, containers=containers, init_containers=None, overhead=None, resources=None)
    status = msgspec.structs.replace(
        pod.status, qos_class=kube_qos(pod), container_statuses=None, init_container_statuses=None
    )
    return msgspec.structs.replace(pod, spec=spec, status=status)


def qos_class(pod: pods.Pod) -> QoSClass:
    """Return the QoS class with default: the label, else Guaranteed -> LSR, Burstable -> LS, BestEffort -> BE."""
    return raw_qos_class(pod) or _QOS_OF_KUBE_QOS[kube_qos(pod)]


def priority_class(pod: pods.Pod) -> PriorityClass:
    """Return the class of the priority, Prod for one above Mid in no band, as those of system-critical pods are.

    Below, a pod that requests Mid resources is Mid, a BestEffort one Batch, and every other one Prod.
    """
    stated = class_of_priority(pod.spec.priority)
    if stated or (pod.spec.priority or 0) > BANDS[PriorityClass.MID].highest:
        return stated or PriorityClass.PROD
    if requests_mid(pod.spec):
        return PriorityClass.MID
    return PriorityClass.BATCH if kube_qos(pod) is KubeQoS.BEST_EFFORT else PriorityClass.PROD


def requests_mid(spec: pods.PodSpec) -> bool:
    """Return whether a pod requests Mid resources, whatever its class."""
    requests = pods.requests(spec)
    return any(requests.get(name, 0) > 0 for name in names.MID_RESOURCES)


def translated_resource(priority_class: PriorityClass, resource: str) -> str | None:
    """Return the name by which a class requests a native resource; None for Free, and for other than cpu and memory."""
    if priority_class in (PriorityClass.PROD, PriorityClass.NONE):
        return resource
    return _EXTENDED.get((priority_class, resource))


_EXTENDED: Final = {
    (PriorityClass.MID, names.CPU): names.MID_CPU,
    (PriorityClass.MID, names.MEMORY): names.MID_MEMORY,
    (PriorityClass.BATCH, names.CPU): names.BATCH_CPU,
    (PriorityClass.BATCH, names.MEMORY): names.BATCH_MEMORY,
}
