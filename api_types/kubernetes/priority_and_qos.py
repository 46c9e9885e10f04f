"""Determine the priority class and the QoS class of a pod, by Koordinator's rules.

"Raw" is the class that the pod states. "With default" fills the gap from the QoS class of Kubernetes, so that every pod
has a class: BestEffort pods are Batch, all others Prod. `spec.priorityClassName` is never read.
"""

from __future__ import annotations

import enum
from typing import Final, NamedTuple

from api_types import names
from api_types.kubernetes import pods


class PriorityClass(enum.StrEnum):
    """Koordinator's priority class; NONE for a pod without a class label whose priority is in no band."""

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


def raw_priority_class(pod: pods.Pod) -> PriorityClass:
    """Return the class of the label, NONE for an unknown one; without a label the class of the numeric priority."""
    label = pods.label_map(pod.metadata).get(names.LABEL_PRIORITY_CLASS)
    if label is None:
        return class_of_priority(pod.spec.priority)
    try:
        return PriorityClass(label)
    except ValueError:
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
            for name, value in pods.units(wire).items():
                if name in _NATIVE and value > 0:
                    total[name] = total.get(name, 0) + value
        limited = {name for name, value in pods.units(container.resources.limits).items() if value > 0}
        guaranteed = guaranteed and limited.issuperset(_NATIVE)
    if not requests and not limits:
        return KubeQoS.BEST_EFFORT
    return KubeQoS.GUARANTEED if guaranteed and requests == limits else KubeQoS.BURSTABLE


def qos_class(pod: pods.Pod) -> QoSClass:
    """Return the QoS class with default: the label, else Guaranteed -> LSR, Burstable -> LS, BestEffort -> BE."""
    return raw_qos_class(pod) or _QOS_OF_KUBE_QOS[kube_qos(pod)]


def priority_class(pod: pods.Pod) -> PriorityClass:
    """Return the priority class with default: as stated, else BE -> Batch and every other pod -> Prod."""
    stated = raw_priority_class(pod)
    if stated:
        return stated
    return PriorityClass.BATCH if qos_class(pod) is QoSClass.BE else PriorityClass.PROD


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
