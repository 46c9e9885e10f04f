"""Derive the facts of a pod that decisions need, once for each object.

A pod that is assigned to a node is kept as an `AssignedPod` (a few numbers), not as the object: the objects of 450,000
pods do not fit in memory.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import msgspec

from api_types import names
from api_types.kubernetes import pods, priority_and_qos, quantities, times
from api_types.kubernetes.priority_and_qos import PriorityClass
from scheduler_plugin.state import estimator, vectors
from scheduler_plugin.state.estimator import EstimatorArgs
from scheduler_plugin.state.vectors import Vector


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
    """As Trimaran's plugins count: the larger of the containers' sum and each init container, then the overhead."""
    shipped_limit: PodAmounts
    """Counted alike, with the overhead."""
    containers: tuple[ContainerCpu, ...]
    """Of more than `_MOST_CONTAINERS` a few with the same sums."""
    sidecars: tuple[ContainerCpu, ...]
    overhead_cpu_millis: int
    by_class: PodResources | None = None
    """Of a Mid or Batch pod: what it declares under the names of its class, else under the native ones."""


NOTHING = PodAmounts(0, 0)
_NATIVE: Final = (names.CPU, names.MEMORY)
UNKNOWN_MID: Final = vectors.LARGEST + 1
"""A Mid amount that cannot be read: no node and no quota has so much. On its node it does not count for others."""
_MOST_CONTAINERS: Final = 64
"""Containers that are kept one by one: thousands fit into a pod, and the resources of thousands of pods are cached."""


def read_resources(spec: pods.PodSpec, priority_class: PriorityClass = PriorityClass.NONE) -> PodResources:
    """Derive the resources of a spec. Raises quantities.InvalidQuantity."""
    containers = [_declared(container) for container in spec.containers]
    init = [_declared(container) for container in spec.init_containers or ()]
    sidecars = [
        declared
        for declared, container in zip(init, spec.init_containers or (), strict=True)
        if container.restart_policy == "Always"
    ]
    requests, limits, overhead = pods.requests(spec), pods.limits(spec), pods.units(spec.overhead)

    def named(cpu: str, memory: str) -> dict[str, Any]:
        """Return the fields whose amounts are declared under the names of CPU and memory of a class."""
        return {
            "request": _amounts(requests, (cpu, memory)),
            "limit": _amounts(limits, (cpu, memory)),
            "containers": _few([_cpu(container, cpu) for container in containers]),
            "sidecars": _few([_cpu(sidecar, cpu) for sidecar in sidecars]),
        }

    native = PodResources(
        **named(*_NATIVE),
        shipped_request=_shipped([one.requests for one in containers], [one.requests for one in init], overhead),
        shipped_limit=_shipped([one.limits for one in containers], [one.limits for one in init], overhead),
        overhead_cpu_millis=overhead.get(names.CPU, 0),
    )
    cpu, memory = (priority_and_qos.translated_resource(priority_class, name) or name for name in _NATIVE)
    if (cpu, memory) == _NATIVE:
        return _shared_resources(native)
    return _shared_resources(native._replace(by_class=native._replace(**named(cpu, memory))))


@functools.lru_cache(maxsize=4096)
def _shared_resources(demand: PodResources) -> PodResources:
    return demand


def raised(limit: PodAmounts, request: PodAmounts) -> PodAmounts:
    """Return limits that are at least the requests."""
    return PodAmounts(max(limit.cpu_millis, request.cpu_millis), max(limit.memory_bytes, request.memory_bytes))


def _amounts(resources: pods.Resources, named: tuple[str, str]) -> PodAmounts:
    return PodAmounts(
        *(resources.get(name, resources.get(native, 0)) for name, native in zip(named, _NATIVE, strict=True))
    )


class _Declared(NamedTuple):
    """What one container declares, in integers."""

    requests: pods.Resources
    limits: pods.Resources


def _declared(container: pods.Container) -> _Declared:
    return _Declared(pods.units(container.resources.requests), pods.units(container.resources.limits))


def _shipped(
    containers: Sequence[pods.Resources], init: Sequence[pods.Resources], overhead: pods.Resources
) -> PodAmounts:
    cpu, memory = (
        max([sum(amounts.get(name, 0) for amounts in containers), *(amounts.get(name, 0) for amounts in init)])
        + overhead.get(name, 0)
        for name in _NATIVE
    )
    return PodAmounts(cpu, memory)


def _cpu(container: _Declared, name: str) -> ContainerCpu:
    request, limit = (amounts.get(name, amounts.get(names.CPU)) for amounts in container)
    return ContainerCpu(request, limit)


def _few(containers: list[ContainerCpu]) -> tuple[ContainerCpu, ...]:
    if len(containers) <= _MOST_CONTAINERS:
        return tuple(containers)
    limits = sum(container.limit for container in containers if container.limit is not None)
    requests = sum(
        container.request for container in containers if container.limit is None and container.request is not None
    )
    undeclared = [container for container in containers if container.limit is None and container.request is None]
    return ContainerCpu(None, limits), ContainerCpu(requests, None), *undeclared[:_MOST_CONTAINERS]


_PINNING_OWNERS: Final = frozenset({"DaemonSet", "Node"})
SYSTEM_CRITICAL_PRIORITY: Final = 2_000_000_000
"""Lowest priority of Kubernetes' system-cluster-critical and system-node-critical pods."""
_MOST_FACTS: Final = 4096
_SIGNATURE_BITS: Final = 2**60 - 1  # one bit more, and each integer takes 16 bytes more


class PodInfo(msgspec.Struct, frozen=True, gc=False):
    """One pod, as the plugins see it."""

    uid: str
    key: str
    """Result of `pod_key`."""
    is_prod: bool
    is_pinned: bool
    """Whether it can run on one node only: a pod of a DaemonSet, or a static pod, which the Node itself owns."""
    estimate: Vector | None
    """Estimated usage; None if a quantity of the pod cannot be parsed."""
    mid_cpu_millis: int = 0
    mid_memory_bytes: int = 0
    demand: PodResources | None = None
    """Declared resources; None if no plugin reads them, or the spec cannot be parsed."""
    priority: int = 0
    is_exempt: bool = False
    """Whether load limits do not apply to it: a system-critical pod, or one with the opt-out label."""
    waited_seconds: float = 0.0
    """How long load alone has refused it, if that is longer than `softAfterSeconds`: its limits are soft then."""
    has_node: bool = False
    """Whether it runs already: kube-scheduler asks about its own node once more where a resize has no room there."""


_facts: dict[tuple[bytes, EstimatorArgs], PodInfo] = {}
"""By digest of all that they depend on beside identity and node: it takes little memory whatever tenants write."""


class AssignedPod(msgspec.Struct, frozen=True, gc=False):
    """A pod that counts on a node."""

    uid: str
    key: str
    """Result of `pod_key`."""
    is_prod: bool
    estimate: Vector | None
    """Estimate that counts; None if there is none, or it is zero in every resource."""
    mid_cpu_millis: int
    mid_memory_bytes: int
    timestamp: float
    """Time of the assignment, seconds since the epoch."""
    forced_until: float | None
    signature: int
    """Hash of the parts that an update may change (spec and conditions): an equal one means that nothing changed."""
    observed: bool
    """Whether the pod was shown on its node; until then it is assumed there."""
    demand: PodResources | None = None
    """Declared resources; None if no plugin reads them, or the spec cannot be parsed."""


def read(pod: pods.Pod, args: EstimatorArgs) -> PodInfo:
    """Derive the facts of a pod, once for all pods of a workload, which differ in name and node alone."""
    meta, spec = pod.metadata, msgspec.structs.replace(pod.spec, node_name="", scheduler_name="")
    alike = msgspec.json.encode((meta.namespace, meta.labels, meta.annotations, meta.owner_references, spec))
    digest = hashlib.blake2b(alike, digest_size=16).digest(), args
    facts = _facts.get(digest)
    if facts is None:
        if len(_facts) >= _MOST_FACTS:
            _facts.clear()
        facts = _facts[digest] = _read(pod, args)
    return msgspec.structs.replace(facts, uid=meta.uid, key=key(pod), has_node=bool(pod.spec.node_name))


def _read(pod: pods.Pod, args: EstimatorArgs) -> PodInfo:
    requests, priority_class = pods.requests(pod.spec), priority_and_qos.priority_class(pod)
    try:
        estimate = _shared(args.vector(estimator.estimate(pod, args, priority_class, quantities.known(requests))))
        demand = read_resources(pod.spec, priority_class) if args.with_demand else None
    except quantities.InvalidQuantity:
        estimate, demand = None, None
    return PodInfo(
        uid=pod.metadata.uid,
        key=key(pod),
        is_prod=priority_class is PriorityClass.PROD,
        is_pinned=is_pinned(pod) and _may_exempt_itself(pod, args),
        priority=pod.spec.priority or 0,
        is_exempt=_is_exempt(pod, args),
        estimate=estimate,
        mid_cpu_millis=_mid(requests, names.MID_CPU),
        mid_memory_bytes=_mid(requests, names.MID_MEMORY),
        demand=demand,
        has_node=bool(pod.spec.node_name),
    )


def _mid(requests: pods.Resources, name: str) -> int:
    amount = requests.get(name, 0)
    return UNKNOWN_MID if amount == quantities.UNKNOWN else vectors.cut(amount)


def pod_key(namespace: str, name: str) -> str:
    """Return `namespace/name`, which joins a NodeMetric's pod entries with cached pods.

    A re-created pod of the same name inherits the old usage until the next report.
    """
    return f"{namespace}/{name}"


def pod_digest(namespace: str, name: str) -> int:
    """Return the hash of a pod key, for sets of 450,000 of them."""
    return hash(pod_key(namespace, name))


def key(pod: pods.Pod) -> str:
    """Return the key of a pod."""
    return pod_key(pod.metadata.namespace, pod.metadata.name)


def is_pinned(pod: pods.Pod) -> bool:
    """Return whether a pod can run on one node only."""
    return any(owner.kind in _PINNING_OWNERS for owner in pod.metadata.owner_references or ())


def _is_exempt(pod: pods.Pod, args: EstimatorArgs) -> bool:
    """Return whether load limits do not apply to a pod: a system-critical one, or one that opts out by its label."""
    is_critical = (pod.spec.priority or 0) >= SYSTEM_CRITICAL_PRIORITY
    opts_out = pods.label_map(pod.metadata).get(names.LABEL_SKIP_LOAD_AWARE) == "true"
    return is_critical or (opts_out and _may_exempt_itself(pod, args))


def _may_exempt_itself(pod: pods.Pod, args: EstimatorArgs) -> bool:
    """Return whether what the author of a pod writes counts: its label, its owners, and that it is a placeholder."""
    return args.exempt_namespaces is None or pod.metadata.namespace in args.exempt_namespaces


@functools.lru_cache(maxsize=4096)
def _shared(vector: Vector) -> Vector:
    """Return one object for equal vectors: a workload has many pods with the same estimate."""
    return vector


def counts_on_its_node(pod: pods.Pod, args: EstimatorArgs) -> bool:
    """Return whether an assigned pod uses anything: terminal pods and reservation placeholders do not.

    A pod that requests Mid always does: an annotation, which its author writes, must not free its share of a quota.
    """
    if pods.is_terminal(pod):
        return False
    is_placeholder = pods.annotation_map(pod.metadata).get(names.ANNOTATION_RESERVE_POD) == "true"
    return not (is_placeholder and _may_exempt_itself(pod, args)) or priority_and_qos.requests_mid(pod.spec)


def assigned(pod: pods.Pod, args: EstimatorArgs, now: float, *, observed: bool) -> AssignedPod:
    """Build the record of a pod on its node; its time is that of the PodScheduled condition, else `now`."""
    return _assigned(read(pod, args), pod, args, now, observed=observed, signed=signature(pod))


def expected(info: PodInfo, pod: pods.Pod, args: EstimatorArgs) -> AssignedPod | None:
    """Build the record of a pod that has no node yet, whose facts are `info`, for `placed`; None if it uses nothing."""
    if not counts_on_its_node(pod, args):
        return None
    return _assigned(info, pod, args, 0.0, observed=False, signed=0)


def placed(record: AssignedPod, now: float) -> AssignedPod:
    """Return an `expected` record with the time at which the pod gets its node."""
    forced_until = None if record.forced_until is None else record.forced_until + now
    return msgspec.structs.replace(record, timestamp=now, forced_until=forced_until)


def _assigned(
    info: PodInfo, pod: pods.Pod, args: EstimatorArgs, now: float, *, observed: bool, signed: int
) -> AssignedPod:
    scheduled_at = true_since(pod, "PodScheduled")
    timestamp = now if scheduled_at is None else scheduled_at
    return AssignedPod(
        uid=info.uid,
        key=info.key,
        is_prod=info.is_prod,
        estimate=info.estimate if info.estimate and any(info.estimate) else None,
        mid_cpu_millis=info.mid_cpu_millis,
        mid_memory_bytes=info.mid_memory_bytes,
        timestamp=timestamp,
        forced_until=estimator.forced_until(pod, args, timestamp, true_since(pod, "Initialized")),
        signature=signed,
        observed=observed,
        demand=info.demand,
    )


def signature(pod: pods.Pod) -> int:
    """Hash the parts of an assigned pod whose change matters: its spec and its conditions.

    Labels and annotations are left out as upstream does: they are read when the pod is assigned.
    """
    return hash(msgspec.json.encode((pod.spec, pod.status.conditions))) & _SIGNATURE_BITS


def true_since(pod: pods.Pod, condition_type: str) -> float | None:
    """Return the time since which a condition is True; None if it is not True, or has no transition time."""
    for condition in pod.status.conditions or ():
        if condition.type == condition_type and condition.status == "True":
            return times.epoch_seconds_or_none(condition.last_transition_time)
    return None
