"""Decode the parts of Pod and Node that this project reads, and compute requests and limits.

The msgspec structs are slim: a decoder skips every field that is not declared, so a 9 kB pod costs microseconds.
`Resources` maps a resource name to its integer in this project's unit (native cpu in
milli-cores, everything else in base units; see `quantities.resource_units`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from typing import Final

import msgspec

from api_types import names
from api_types.kubernetes import quantities

Resources = dict[str, int]
QuantityMap = dict[str, str | int | float]
MOST_ANNOTATION_BYTES: Final = 16 * 1024
"""Longest annotation that is decoded. The apiserver accepts 256 KiB, which a node or a tenant may write at will."""
TOO_LONG: Final = " " * (MOST_ANNOTATION_BYTES + 1)
"""Stored for every annotation that is too long to be decoded: its readers refuse it as they would the text itself."""


class OwnerReference(msgspec.Struct, rename="camel", gc=False, frozen=True):
    """Owner of an object."""

    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None


class ObjectMeta(msgspec.Struct, rename="camel", frozen=True):
    """Identity, labels and annotations of an object."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    """Set while the object is being deleted; of a pod: the end of its grace period."""
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    owner_references: list[OwnerReference] | None = None


class AnyObject(msgspec.Struct, frozen=True):
    """Any object, by its metadata."""

    metadata: ObjectMeta = ObjectMeta()


_MOST_OWNERS: Final = 32


class TenantMeta(ObjectMeta, rename="camel", frozen=True):
    """Metadata of an object of a tenant, who may write a megabyte into it: what is not read is not kept."""

    def __post_init__(self) -> None:
        """Drop it as soon as this object is decoded."""
        for field in ("labels", "annotations"):
            if texts := getattr(self, field):
                read = {name: texts[name] for name in texts.keys() & names.READ_OF_TENANTS}
                for name, text in read.items():  # none of them has a letter that takes four bytes
                    read[name] = text if text.isascii() and len(text) <= MOST_ANNOTATION_BYTES else TOO_LONG
                msgspec.structs.force_setattr(self, field, read)
        if self.owner_references and len(self.owner_references) > _MOST_OWNERS:
            msgspec.structs.force_setattr(self, "owner_references", self.owner_references[:_MOST_OWNERS])


class ResourceRequirements(msgspec.Struct, rename="camel", frozen=True):
    """Requests and limits as on the wire."""

    requests: QuantityMap | None = None
    limits: QuantityMap | None = None


_NOTHING = ResourceRequirements()


class Container(msgspec.Struct, rename="camel", frozen=True):
    """A container or an init container; `restart_policy` Always makes the latter a native sidecar."""

    name: str = ""
    resources: ResourceRequirements = _NOTHING
    restart_policy: str | None = None


class PodSpec(msgspec.Struct, rename="camel", frozen=True):
    """Resources that a pod requests, and its node."""

    containers: list[Container] = []
    init_containers: list[Container] | None = None
    overhead: QuantityMap | None = None
    resources: ResourceRequirements | None = None
    node_name: str = ""
    scheduler_name: str = ""
    priority: int | None = None


class ObjectCondition(msgspec.Struct, rename="camel", frozen=True):
    """A condition of the status of a pod or a report."""

    type: str = ""
    status: str = ""
    reason: str = ""
    last_transition_time: str | None = None


class ContainerWaiting(msgspec.Struct, frozen=True):
    """Shows that a container waits to be started, again or for the first time."""


class ContainerState(msgspec.Struct, frozen=True):
    """State of a container; of running, waiting and terminated one is set."""

    waiting: ContainerWaiting | None = None


class ContainerStatus(msgspec.Struct, rename="camel", frozen=True):
    """Id that the container runtime gave to a container of the spec, and the resources that it runs with."""

    name: str = ""
    container_id: str = msgspec.field(default="", name="containerID")
    allocated_resources: QuantityMap | None = None
    """Requests that the kubelet has accepted."""
    resources: ResourceRequirements | None = None
    """Requests and limits in force; they differ from the spec while a resize is not done."""
    state: ContainerState | None = None


class PodStatus(msgspec.Struct, rename="camel", frozen=True):
    """Phase, QoS class and conditions of a pod."""

    phase: str = ""
    qos_class: str = ""
    nominated_node_name: str = ""
    """Node for which other pods are evicted, so that it fits."""
    start_time: str | None = None
    """Time at which the kubelet took the pod; absent before."""
    conditions: list[ObjectCondition] | None = None
    container_statuses: list[ContainerStatus] | None = None
    init_container_statuses: list[ContainerStatus] | None = None
    allocated_resources: QuantityMap | None = None
    """Requests of the pod as a whole that the kubelet has accepted."""
    resources: ResourceRequirements | None = None
    """Requests and limits of the pod as a whole that are in force."""


class Pod(msgspec.Struct, rename="camel", frozen=True):
    """A pod."""

    metadata: TenantMeta = TenantMeta()
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()


class NodeAddress(msgspec.Struct, frozen=True):
    """Address or host name of a node."""

    address: str = ""


class NodeInfo(msgspec.Struct, frozen=True, gc=False):
    """Facts about the machine of a node: the `capacity` of its swap in bytes."""

    swap: dict[str, int] | None = None


class NodeStatus(msgspec.Struct, rename="camel", frozen=True):
    """Capacity of a node, the part of it that pods may request, its addresses, and facts about its machine."""

    capacity: QuantityMap | None = None
    allocatable: QuantityMap | None = None
    addresses: list[NodeAddress] | None = None
    node_info: NodeInfo | None = None


class Taint(msgspec.Struct, frozen=True, gc=False):
    """A taint of a node."""

    key: str = ""
    effect: str = ""


class NodeSpec(msgspec.Struct, rename="camel", frozen=True):
    """What keeps pods off a node: its taints, and whether it is cordoned."""

    unschedulable: bool | None = None
    taints: list[Taint] | None = None


class Node(msgspec.Struct, rename="camel", frozen=True):
    """A node."""

    metadata: ObjectMeta = ObjectMeta()
    status: NodeStatus = NodeStatus()
    spec: NodeSpec = NodeSpec()


def label_map(meta: ObjectMeta) -> Mapping[str, str]:
    """Return the labels; empty where the object has none."""
    return meta.labels or {}


def annotation_map(meta: ObjectMeta) -> Mapping[str, str]:
    """Return the annotations; empty where the object has none."""
    return meta.annotations or {}


def annotation(annotations: Mapping[str, str], name: str) -> str | None:
    """Return the text of an annotation to decode; None where it is absent or longer than MOST_ANNOTATION_BYTES."""
    text = annotations.get(name)
    return text if text is not None and not is_too_long(text) else None


def is_too_long(text: str) -> bool:
    """Return whether a text has more bytes than MOST_ANNOTATION_BYTES."""
    return len(text) > MOST_ANNOTATION_BYTES or len(text.encode(errors="replace")) > MOST_ANNOTATION_BYTES


def is_terminal(pod: Pod) -> bool:
    """Return whether the pod has ended: it runs nothing and requests nothing."""
    return pod.status.phase in ("Succeeded", "Failed")


def is_admitted(pod: Pod) -> bool:
    """Return whether the kubelet has taken the pod: `spec.nodeName` alone does not show it, as its author may set it.

    The kubelet sets `status.startTime` when it takes a pod, and ends the pod at once when it rejects it.
    """
    return pod.status.start_time is not None and not is_terminal(pod)


def units(wire: QuantityMap | None) -> Resources:
    """Convert a resource list of the wire to integers. Raises quantities.InvalidQuantity."""
    return {name: quantities.resource_units(name, value) for name, value in (wire or {}).items()}


def _add(total: quantities.Exact, more: Mapping[str, int | Decimal]) -> None:
    for name, value in more.items():
        total[name] = total.get(name, 0) + value


def _raise_to(total: quantities.Exact, peak: quantities.Exact) -> None:
    total.update((name, max(total.get(name, 0), value)) for name, value in peak.items())


def _is_sidecar(container: Container) -> bool:
    return container.restart_policy == "Always"


def _total(spec: PodSpec, read: Callable[[ResourceRequirements], QuantityMap | None]) -> quantities.Exact:
    """Compute the effective sum: containers + sidecars, at least each init container with the sidecars before it.

    What the pod states as a whole counts instead. Source: Kubernetes documentation, "Sidecar containers", resource
    sharing within containers.
    """
    total: quantities.Exact = {}
    for container in spec.containers:
        _add(total, quantities.exact(read(container.resources)))
    sidecars: quantities.Exact = {}
    init_peak: quantities.Exact = {}
    for init in spec.init_containers or ():
        # What it does not want is not above the final sum. To copy it for each of thousands of sidecars takes seconds.
        stated = quantities.exact(read(init.resources)).items()
        running = {name: sidecars.get(name, 0) + value for name, value in stated}
        if _is_sidecar(init):
            sidecars.update(running)
        _raise_to(init_peak, running)
    _add(total, sidecars)
    _raise_to(total, init_peak)
    for name, value in quantities.exact(read(spec.resources or _NOTHING)).items():
        if name in (names.CPU, names.MEMORY) or name.startswith("hugepages-"):
            total[name] = value
    return total


def requests(spec: PodSpec) -> Resources:
    """Compute the effective requests of a pod: containers, sidecars, init peak, pod-level resources, overhead."""
    total = _total(spec, lambda resources: resources.requests)
    _add(total, quantities.exact(spec.overhead))
    return quantities.rounded(total)


def requests_in_force(pod: Pod) -> Resources:
    """Compute the effective requests as the kubelet and kube-scheduler count them while a resize is not done.

    That is the largest of what the spec requests, what the kubelet has accepted and what is in force, of each container
    and of the pod as a whole; a resize that the kubelet refused as infeasible does not count.
    """
    is_infeasible = any(
        condition.type == "PodResizePending" and condition.reason == "Infeasible"
        for condition in pod.status.conditions or ()
    )

    def in_force(wanted: ResourceRequirements, status: ContainerStatus | PodStatus) -> ResourceRequirements:
        running = status.resources or _NOTHING
        lists = [running.requests, status.allocated_resources, None if is_infeasible else wanted.requests]
        return ResourceRequirements(requests=_largest(lists))

    return requests(_in_force(pod, in_force))


def cpu_limit_millis(pod: Pod) -> int | None:
    """Return the CPU that a pod may use, None where one of its containers has no limit, as the kubelet sees it.

    While a resize is not done, containers and the pod as a whole count with the larger limit.
    """

    def in_force(wanted: ResourceRequirements, status: ContainerStatus | PodStatus) -> ResourceRequirements:
        either = [wanted.limits or {}, (status.resources or _NOTHING).limits or {}]
        is_limited = all(quantities.amounts(wire).get(names.CPU) for wire in either)  # 0 is no limit
        return ResourceRequirements(limits=_largest(either) if is_limited else None)

    limited = _in_force(pod, in_force)
    pod_limits = limited.resources.limits if limited.resources else None
    every = (*limited.containers, *(limited.init_containers or ()))
    if not quantities.amounts(pod_limits).get(names.CPU) and not all(
        quantities.amounts(container.resources.limits).get(names.CPU) for container in every
    ):
        return None
    return limits(limited).get(names.CPU)


def _statuses(pod: Pod) -> Mapping[str, ContainerStatus]:
    """Return the statuses of containers that may be resized and differ from the spec, by name."""
    spec_resources = {container.name: container.resources for container in pod.spec.containers}
    spec_resources.update(
        (container.name, container.resources) for container in pod.spec.init_containers or () if _is_sidecar(container)
    )
    statuses = (*(pod.status.container_statuses or ()), *(pod.status.init_container_statuses or ()))
    return {
        status.name: status
        for status in statuses
        if status.resources is not None
        and (in_spec := spec_resources.get(status.name)) is not None
        and (status.resources != in_spec or status.allocated_resources != in_spec.requests)
    }


def _largest(lists: Iterable[QuantityMap | None]) -> QuantityMap:
    largest: QuantityMap = {}
    sizes: dict[str, int | Decimal] = {}
    for wire in lists:
        for name, size in quantities.exact(wire).items():
            if name not in sizes or size > sizes[name]:
                sizes[name], largest[name] = size, (wire or {})[name]
    return largest


def _in_force(
    pod: Pod, in_force: Callable[[ResourceRequirements, ContainerStatus | PodStatus], ResourceRequirements]
) -> PodSpec:
    """Return the spec with other resources of what may be resized and reports another size: the pod as a whole too."""
    running, whole = _statuses(pod), pod.spec.resources
    is_whole_resized = whole is not None and pod.status.resources is not None
    if not running and not is_whole_resized:
        return pod.spec

    def replaced(container: Container) -> Container:
        status = running.get(container.name)
        if status is None:
            return container
        return msgspec.structs.replace(container, resources=in_force(container.resources, status))

    return msgspec.structs.replace(
        pod.spec,
        containers=[replaced(container) for container in pod.spec.containers],
        init_containers=[replaced(container) for container in pod.spec.init_containers or ()],
        resources=in_force(whole, pod.status) if whole and is_whole_resized else whole,
    )


def limits(spec: PodSpec) -> Resources:
    """Compute the effective limits: the sum over the containers that have one; overhead only where a limit exists."""
    total = _total(spec, lambda resources: resources.limits)
    for name, value in quantities.exact(spec.overhead).items():
        if total.get(name):
            total[name] += value
    return quantities.rounded(total)


def allocatable(node: Node) -> Resources:
    """Return the native allocatable of a node. With amplification the raw-allocatable annotation replaces or adds keys.

    A malformed, empty or too long annotation is ignored. Raises quantities.InvalidQuantity for a malformed status.
    """
    text = annotation(annotation_map(node.metadata), names.ANNOTATION_RAW_ALLOCATABLE)
    try:
        raw = units(msgspec.json.decode(text, type=QuantityMap)) if text else {}
    except (msgspec.DecodeError, quantities.InvalidQuantity, RecursionError):
        raw = {}
    return units(node.status.allocatable) | raw
