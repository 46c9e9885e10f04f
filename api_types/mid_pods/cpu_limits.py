"""CPU limits of the containers of a Mid pod: what they are, what they were before they were lowered, how to set them.

The one who lowers limits and the one who restores them share these rules. No record is kept: the API server stores with
every field who wrote it last (`managedFields`), so a limit below the one that the author wanted is the agent's if, and
only if, the agent's name is on it. Mid CPU is immutable, and it is the original limit of most containers. Where an
author set a stricter one, the name under which the agent writes contains it: `koordlet,c0=200` states that container 0
had 200m.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from api_types import names
from api_types.kubernetes import pods, quantities
from api_types.kubernetes.priority_and_qos import KubeQoS, PriorityClass, kube_qos, priority_class
from api_types.mid_pods.resources import PAIRS

FIELD_MANAGER: Final = "koordlet"
LEAST_LIMIT_MILLIS: Final = 10
"""Smallest quota that the kernel takes: 1 ms of 100 ms."""
UNLIMITED_MILLIS: Final = quantities.MOST
"""Value of a limit of 0, which an author may set by a resize: no limit."""
_LONGEST_FIELD_MANAGER: Final = 128
_RESIZE: Final = "resize"
_RESTART: Final = "RestartContainer"
_QUOTA: Final = re.compile(r"exceeded quota: ([^,\s]+)")
_VPA_NAME: Final = re.compile(r"Pod resources updated by ([a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?):(.*)", re.DOTALL)
_UNREADABLE: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""Errors of fields and of their keys: an author may write any fields of any writer, as deep as the API server reads."""
NOT_RESTORED: Final = "CPULimitNotRestored"
"""Reason of the Event on a pod whose limit cannot be restored."""
AUTOSCALED: Final = "CPUAutoscaled"
"""Reason of the Event on a pod whose CPU a Vertical Pod Autoscaler sets too."""
INFEASIBLE: Final = "Infeasible"
_PROBLEMS: Final = {
    ("PodResizePending", INFEASIBLE): INFEASIBLE,
    ("PodResizePending", "Deferred"): "Deferred",
    ("PodResizeInProgress", "Error"): "Error",
}


class FieldManager(msgspec.Struct, rename="camel", frozen=True):
    """Writer of some fields of an object."""

    manager: str = ""
    subresource: str = ""
    fields_v1: msgspec.Raw = msgspec.Raw(b"")


class WrittenMetadata(pods.TenantMeta, rename="camel", frozen=True):
    """Metadata with the writers of the fields."""

    managed_fields: list[FieldManager] | None = None


class ResizePolicy(msgspec.Struct, rename="camel", frozen=True):
    """What the kubelet does with a container when one of its resources is resized."""

    resource_name: str = ""
    restart_policy: str = ""


class ResizedContainer(pods.Container, rename="camel", frozen=True):
    """A container with its policies for resizes."""

    resize_policy: list[ResizePolicy] | None = None


class ResizedSpec(pods.PodSpec, rename="camel", frozen=True):
    """A spec whose containers state their policies for resizes."""

    containers: list[ResizedContainer] = msgspec.field(default_factory=list)  # type: ignore[assignment]
    init_containers: list[ResizedContainer] | None = None  # type: ignore[assignment]


class WrittenPod(pods.Pod, rename="camel", frozen=True):
    """A pod with the writers of its fields."""

    metadata: WrittenMetadata = WrittenMetadata()
    spec: ResizedSpec = ResizedSpec()


@dataclass(frozen=True, slots=True)
class MidContainer:
    """A container, or a sidecar, with Mid CPU, and a CPU limit that changes without a restart. In millicores."""

    key: str
    """Its list and its position there, such as `c0` or `i1` for a sidecar."""
    name: str
    mid_millis: int
    floor_millis: int
    """Smallest limit that the API server and the kernel take."""
    original_millis: int
    """Limit of the author: Mid CPU, or a stricter one."""
    limit_millis: int
    """Limit in force; above the original where its author has set it above Mid CPU, or to 0."""
    requested_millis: int
    """Mid CPU that it requests, which schedulers and quotas count; at most `mid_millis`, its limit."""

    @property
    def is_sidecar(self) -> bool:
        """Return whether it is in the list of init containers."""
        return self.key.startswith("i")


@dataclass(frozen=True, slots=True)
class ResizablePod:
    """What may be resized of a pod whose priority is Mid."""

    resource_version: str
    containers: tuple[MidContainer, ...]
    resize_problem: str = ""
    """Why the kubelet does not do the newest resize, as the reason of its condition; empty where it does."""
    autoscaler: str = ""
    """Vertical Pod Autoscaler that sets CPU of the pod too, as its annotations state; empty without one."""
    unlimited: str = ""
    """Why some of its CPU usage has no limit that may be lowered; empty where all has."""
    has_limits: bool = True
    """Whether each container has a limit of CPU and of memory, be it a Mid one alone."""

    @property
    def is_lowered(self) -> bool:
        """Return whether a limit is below its original."""
        return any(container.limit_millis < container.original_millis for container in self.containers)

    @property
    def pinned_millis(self) -> int:
        """Return the limits that are as low as native requests of CPU let them be."""
        floors = (
            container.floor_millis for container in self.containers if container.limit_millis <= container.floor_millis
        )
        return sum(floor for floor in floors if floor > LEAST_LIMIT_MILLIS)

    def originals(self) -> dict[str, int]:
        """Return the original of each lowered limit, by the key of its container."""
        return {
            container.key: container.original_millis
            for container in self.containers
            if container.limit_millis < container.original_millis
        }


def resizable_pod(pod: pods.Pod) -> ResizablePod | None:
    """Return what may be resized; None for a pod that is not Mid."""
    if priority_class(pod) is not PriorityClass.MID:
        return None
    unlimited = _unlimited(pod)
    resizable = pods.is_admitted(pod) and not unlimited
    lowered = _lowered(pod.metadata) if resizable else {}
    containers = [
        _container(f"{kind}{index}", container, lowered.get(f"{kind}:{container.name}"))
        for kind, listed in (("c", pod.spec.containers), ("i", pod.spec.init_containers or ()))
        for index, container in enumerate(listed if resizable else ())
        if kind == "c" or container.restart_policy == "Always"
    ]
    if None in containers:
        unlimited = "a container without limits of cpu and kubernetes.io/mid-cpu, or that restarts at a new limit"
    elif any(container and container.floor_millis > LEAST_LIMIT_MILLIS for container in containers):
        unlimited = "native requests of cpu"
    return ResizablePod(
        pod.metadata.resource_version,
        tuple(container for container in containers if container is not None),
        _resize_problem(pod),
        _autoscaler(pod.metadata),
        unlimited,
        all(_has_limits(container) for container in (*pod.spec.containers, *(pod.spec.init_containers or ()))),
    )


def _has_limits(container: pods.Container) -> bool:
    limits = quantities.amounts(container.resources.limits)
    return all(limits.get(pair.native) or limits.get(pair.mid) for pair in PAIRS)


def _unlimited(pod: pods.Pod) -> str:
    """Return why no limit of the pod may be changed; empty where those of its containers decide."""
    whole = pod.spec.resources
    if names.ANNOTATION_MIRROR_POD in pods.annotation_map(pod.metadata):
        return "a static pod"
    if whole and (whole.requests or whole.limits):
        return "resources of the pod as a whole"
    return "BestEffort" if kube_qos(pod) is KubeQoS.BEST_EFFORT else ""  # a limit would change its QoS class


def is_in_force(pod: pods.Pod) -> bool:
    """Return whether the kubelet runs each container of a Mid pod with its CPU limit, or will not do so.

    A container without a status, and a kubelet that reports no resources, leave nothing to wait for.
    """
    mid = resizable_pod(pod)
    if mid is None or mid.resize_problem == INFEASIBLE:
        return True
    listed = (*(pod.status.container_statuses or ()), *(pod.status.init_container_statuses or ()))
    running = {
        status.name: quantities.amounts(status.resources.limits) if status.resources else {} for status in listed
    }
    return all(
        (limit := running.get(container.name, {}).get(names.CPU)) is None
        or (limit or UNLIMITED_MILLIS) == container.limit_millis
        for container in mid.containers
    )


def field_manager(containers: Iterable[MidContainer]) -> str:
    """Return the name under which the agent writes limits of these containers, all of one pod.

    An original that has no room in the name is forgotten: it becomes Mid CPU.
    """
    name = FIELD_MANAGER
    for container in containers:
        part = f",{container.key}={container.original_millis}"
        if container.original_millis < container.mid_millis and len(name) + len(part) <= _LONGEST_FIELD_MANAGER:
            name += part
    return name


def patch(uid: str, mid: ResizablePod, limits: Mapping[str, int]) -> dict[str, Any]:
    """Return the body of a patch of `pods/resize`: limits in millicores by the keys of containers.

    It states UID and version of the pod, so a pod created again under the same name, and a limit that its author
    changed in between, are never overwritten.
    """
    spec: dict[str, list[dict[str, Any]]] = {}
    for container in mid.containers:
        if container.key in limits:
            limit = quantities.format_cpu_millis(limits[container.key])
            listed = spec.setdefault("initContainers" if container.is_sidecar else "containers", [])
            listed.append({"name": container.name, "resources": {"limits": {"cpu": limit}}})
    return {"metadata": {"uid": uid, "resourceVersion": mid.resource_version}, "spec": spec}


def refusing_quota(server_message: str) -> str:
    """Return the name of the ResourceQuota that an answer of the API server names as exceeded; empty without one."""
    match = _QUOTA.search(server_message)
    return match.group(1) if match else ""


def quota_advice(quota: str, namespace: str) -> str:
    """Return what an operator does about a quota that counts CPU limits of Mid pods."""
    return (
        f"ResourceQuota {namespace}/{quota} counts limits.cpu, and has no room to restore the CPU limit of this "
        "Mid pod; exempt Mid pods: scopeSelector with PriorityClass NotIn [koord-mid]"
    )


def autoscaler_advice(autoscaler: str) -> str:
    """Return what an operator does about an autoscaler that sets CPU of a Mid pod."""
    return (
        f"{autoscaler} sets CPU of this Mid pod too, so it and suppression undo each other's limits: leave CPU out of "
        "it (resourcePolicy.containerPolicies: controlledResources [memory]), or set its updateMode to Off"
    )


def _container(key: str, container: pods.Container, manager: str | None) -> MidContainer | None:
    limits, requests = quantities.amounts(container.resources.limits), quantities.amounts(container.resources.requests)
    if names.MID_CPU not in limits or names.CPU not in limits or _restarts(container):
        return None
    mid, limit = limits[names.MID_CPU], limits[names.CPU] or UNLIMITED_MILLIS
    request = requests.get(names.CPU, 0)
    if mid <= 0 or limit <= 0:
        return None
    original = limit if manager is None else _original(manager, key, mid)
    original = max(min(original, mid), min(limit, mid))
    # The QoS class must not change, and it would if limits and requests became equal.
    least = max(LEAST_LIMIT_MILLIS, request + 1 if request else 0)
    requested = requests.get(names.MID_CPU, mid) % quantities.UNKNOWN  # one that is unknown gives no share of a budget
    return MidContainer(key, container.name, mid, min(least, original, limit), original, limit, min(requested, mid))


def _restarts(container: pods.Container) -> bool:
    """Return whether a new CPU limit restarts the container."""
    policies: Sequence[ResizePolicy] = getattr(container, "resize_policy", None) or ()
    return any(policy.resource_name == names.CPU and policy.restart_policy == _RESTART for policy in policies)


def _original(manager: str, key: str, mid_millis: int) -> int:
    """Return the original that the name of the writer states for a container."""
    for part in manager.split(",")[1:]:
        named, _, millis = part.partition("=")
        if named == key and millis.isdecimal():
            return int(millis[:12])
    return mid_millis


def _lowered(metadata: pods.ObjectMeta) -> Mapping[str, str]:
    """Return list and name of each container whose CPU limit the agent wrote last -> the name it wrote under."""
    writers: dict[str, str] = {}
    managers: Sequence[FieldManager] = getattr(metadata, "managed_fields", None) or ()
    for entry in managers:
        if entry.subresource != _RESIZE or entry.manager.partition(",")[0] != FIELD_MANAGER:
            continue
        spec = _part(_decoded(entry.fields_v1), "f:spec")
        for kind, listed in (("c", "f:containers"), ("i", "f:initContainers")):
            for key, fields in _part(spec, listed).items():
                if f"f:{names.CPU}" in _part(_part(fields, "f:resources"), "f:limits"):
                    writers[f"{kind}:{_name(key)}"] = entry.manager
    return writers


def _decoded(fields: msgspec.Raw) -> Any:
    try:
        return msgspec.json.decode(fields) if bytes(fields) else {}
    except _UNREADABLE:
        return {}


def _part(fields: Any, name: str) -> dict[str, Any]:
    part = fields.get(name) if isinstance(fields, dict) else None
    return part if isinstance(part, dict) else {}


def _name(key: str) -> str:
    """Return the name of a container from its key, such as k:{"name":"web"}."""
    try:
        decoded = msgspec.json.decode(key.removeprefix("k:"))
    except _UNREADABLE:
        return ""
    name = decoded.get("name") if isinstance(decoded, dict) else None
    return name if isinstance(name, str) else ""


def _autoscaler(metadata: pods.ObjectMeta) -> str:
    """Return the autoscaler that sets CPU. An author may write these annotations: the effect is a text in an Event."""
    annotations = pods.annotation_map(metadata)
    named = _VPA_NAME.match(annotations.get(names.ANNOTATION_VPA_UPDATES, ""))
    changed = named.group(2) if named else ""
    if "cpu" not in changed and (changed.strip() or annotations.get(names.ANNOTATION_VPA_IN_PLACE) != "true"):
        return ""
    return f"VerticalPodAutoscaler {metadata.namespace}/{named.group(1)}" if named else "a VerticalPodAutoscaler"


def _resize_problem(pod: pods.Pod) -> str:
    return next(
        (
            problem
            for condition in pod.status.conditions or ()
            if condition.status == "True" and (problem := _PROBLEMS.get((condition.type, condition.reason)))
        ),
        "",
    )
