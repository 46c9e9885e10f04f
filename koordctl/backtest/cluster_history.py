"""Read the nodes of a cluster from series of cAdvisor and kube-state-metrics, one node and day at a time.

Series of the two Prometheus of an HA pair are merged by their maximum. Counters are read by `rate`, which handles their
resets. A pod is identified by its UID: one that moves or is created again is another pod. Days make one history.
"""

from __future__ import annotations

import heapq
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy as np

from api_types.kubernetes.priority_and_qos import PriorityClass
from component_base.prometheus import label_values, selector
from koordctl.backtest import node_history
from koordctl.backtest.node_history import BoundPod, NodeHistory, SeriesStay
from koordctl.backtest.prometheus import Prometheus, StepSeries, TimeRange
from koordlet.prediction.allocation import Owner, WholeAmounts
from koordlet.prediction.histogram_bank import FloatArray
from koordlet.samples import RESOURCES, Resource


class Name(NamedTuple):
    """Namespace and name of a pod; one that is created again has the same."""

    namespace: str
    pod: str


class PodLabels(NamedTuple):
    """Labels of a pod in the series of kube-state-metrics."""

    name: Name
    uid: str
    """Namespace and name where the series have no UID."""
    priority_class: str
    """Name of a Kubernetes PriorityClass, empty without one."""


@dataclass(frozen=True, eq=False)
class NodeDay:
    """Series of one node; arrays have one column for each step, NaN where there is no usable value."""

    time_range: TimeRange
    pods: Sequence[PodLabels]
    is_bound: np.ndarray
    """(pods, steps): whether the pod was on the node."""
    measured: Mapping[Resource, Sequence[Name]]
    usage: Mapping[Resource, FloatArray]
    """(rows of `measured`, steps) in cores and bytes."""
    node_usage: Mapping[Resource, FloatArray]
    """(steps,): the root cgroup."""
    requests: Mapping[str, Mapping[str, float]]
    """UID -> resource -> sum over the containers."""
    capacity: Mapping[str, float]
    allocatable: Mapping[str, float]
    owners: Mapping[str, Owner] = field(default_factory=dict)
    """Namespace and name of a pod, joined -> what controls it."""


@dataclass(eq=False)
class _MeasuredStay:
    """A pod with usage from one known step to another; values are (2, steps) of CPU and memory."""

    labels: PodLabels
    start: int
    values: FloatArray

    @property
    def end(self) -> int:
        return self.start + int(self.values.shape[1])


def join_days(
    node: str, time_range: TimeRange, days: Iterable[NodeDay], classes: Mapping[str, PriorityClass]
) -> NodeHistory:
    """Return the history of a node from days in ascending order; `bound` is empty where no pod was measured.

    Pods that do not run at the same time share a row, so memory grows with the pods at one time.
    """
    steps, step_seconds = time_range.steps, time_range.step_seconds
    parts: dict[PodLabels, list[tuple[int, FloatArray]]] = {}
    whole = {resource: np.full(steps, np.nan) for resource in RESOURCES}
    requests: dict[str, dict[str, float]] = {}
    capacity: dict[str, float] = {}
    allocatable: dict[str, float] = {}
    owners: dict[str, Owner] = {}
    for day in days:
        at = (day.time_range.start - time_range.start) // step_seconds
        begin, end = max(at, 0), min(at + day.time_range.steps, steps)
        for labels, values in _pod_values(day, begin - at, end - at):
            parts.setdefault(labels, []).append((begin, values))
        for resource in RESOURCES:
            whole[resource][begin:end] = day.node_usage[resource][begin - at : end - at]
        for uid, amounts in day.requests.items():
            largest = requests.setdefault(uid, {})
            for name, value in amounts.items():
                largest[name] = max(largest.get(name, 0.0), value)
        capacity |= day.capacity
        allocatable |= day.allocatable
        owners |= day.owners
    stays = sorted(_stays(parts, step_seconds), key=lambda stay: (stay.start, stay.labels))
    pods, usage = _packed(stays, steps)
    is_measured = all(np.isfinite(values).any() for values in whole.values())
    return NodeHistory(
        node,
        step_seconds,
        [_bound(stay.labels, requests, classes, owners) for stay in stays],
        pods,
        usage,
        {resource: _filled(values, step_seconds) for resource, values in whole.items()} if is_measured else None,
        _amounts(capacity),
        _amounts(allocatable) or _amounts(capacity),
    )


def priority_class_by_name(name: str, classes: Mapping[str, PriorityClass]) -> PriorityClass:
    """Return the class of the name of a Kubernetes PriorityClass; Prod for any other, which errs on the safe side."""
    if name in classes:
        return classes[name]
    suffix = name.removeprefix("koord-").removeprefix("koordinator-")
    by_suffix = {"mid": PriorityClass.MID, "batch": PriorityClass.BATCH, "free": PriorityClass.FREE}
    return by_suffix.get(suffix, PriorityClass.PROD)


def _pod_values(day: NodeDay, begin: int, end: int) -> Iterable[tuple[PodLabels, FloatArray]]:
    """Yield CPU and memory of each pod while it is bound, (2, steps); NaN where one of them is missing."""
    rows = {resource: {name: row for row, name in enumerate(day.measured[resource])} for resource in RESOURCES}
    for labels, is_bound in zip(day.pods, day.is_bound[:, begin:end], strict=True):
        numbers = [rows[resource].get(labels.name) for resource in RESOURCES]
        values: FloatArray = np.full((len(RESOURCES), end - begin), np.nan)
        if all(row is not None for row in numbers):
            values[:] = [day.usage[resource][row, begin:end] for resource, row in zip(RESOURCES, numbers, strict=True)]
            values[:, ~is_bound | ~np.isfinite(values).all(axis=0)] = np.nan
        yield labels, values


def _stays(parts: Mapping[PodLabels, Sequence[tuple[int, FloatArray]]], step_seconds: int) -> Iterable[_MeasuredStay]:
    """Yield the pods that were measured. One ends where the next of its name begins: both have the same series."""
    by_name: dict[Name, list[_MeasuredStay]] = {}
    for labels, pieces in parts.items():
        first = pieces[0][0]
        values: FloatArray = np.full((len(RESOURCES), pieces[-1][0] + pieces[-1][1].shape[1] - first), np.nan)
        for begin, part in pieces:
            values[:, begin - first : begin - first + part.shape[1]] = part
        measured = np.flatnonzero(np.isfinite(values[0]))
        if len(measured):
            stay = _MeasuredStay(labels, first + int(measured[0]), values[:, measured[0] : measured[-1] + 1].copy())
            by_name.setdefault(labels.name, []).append(stay)
    for same in by_name.values():
        same.sort(key=lambda stay: (stay.start, stay.labels.uid))
        for stay, following in zip(same, [*same[1:], None], strict=True):
            if following is not None:
                stay.values = stay.values[:, : max(following.start - stay.start, 0)]
            if stay.values.shape[1]:
                stay.values = np.array([_filled(values, step_seconds) for values in stay.values])
                yield stay


def _packed(stays: Sequence[_MeasuredStay], steps: int) -> tuple[list[SeriesStay], dict[Resource, FloatArray]]:
    """Return the stays, which are in the order of their start, and their usage in as few rows as possible."""
    pods: list[SeriesStay] = []
    free: list[tuple[int, int]] = []
    rows = 0
    for stay in stays:
        if free and free[0][0] <= stay.start:
            row = heapq.heappop(free)[1]
        else:
            row, rows = rows, rows + 1
        heapq.heappush(free, (stay.end, row))
        pods.append(SeriesStay(row, stay.start, stay.end, len(pods)))
    usage = {resource: np.full((rows, steps), np.nan) for resource in RESOURCES}
    for stay, pod in zip(stays, pods, strict=True):
        for resource, values in zip(RESOURCES, stay.values, strict=True):
            usage[resource][pod.series, pod.start : pod.end] = values
    return pods, usage


def _bound(
    labels: PodLabels,
    requests: Mapping[str, Mapping[str, float]],
    classes: Mapping[str, PriorityClass],
    owners: Mapping[str, Owner],
) -> BoundPod:
    requested = requests.get(labels.uid) or requests.get("/".join(labels.name), {})
    return BoundPod(
        uid=labels.uid,
        priority_class=priority_class_by_name(labels.priority_class, classes),
        cpu_request_millis=round(1000 * requested.get("cpu", 0.0)),
        memory_request_bytes=round(requested.get("memory", 0.0)),
        mid_cpu_request_millis=round(requested.get("kubernetes_io_mid_cpu", 0.0)),
        mid_memory_request_bytes=round(requested.get("kubernetes_io_mid_memory", 0.0)),
        owner=owners.get("/".join(labels.name)),
    )


def _amounts(values: Mapping[str, float]) -> WholeAmounts | None:
    if not {"cpu", "memory"} <= values.keys():
        return None
    return WholeAmounts(round(1000 * values["cpu"]), round(values["memory"]))


def _filled(values: FloatArray, step_seconds: int) -> FloatArray:
    filled: FloatArray = node_history.without_short_gaps(
        values[np.newaxis], node_history.SHORT_GAP_SECONDS // step_seconds
    )[0]
    return filled


METRICS: Final[Mapping[str, str]] = {
    "cpu": "container_cpu_usage_seconds_total",
    "memory": "container_memory_working_set_bytes",
    "pods": "kube_pod_info",
    "requests": "kube_pod_container_resource_requests",
    "capacity": "kube_node_status_capacity",
    "allocatable": "kube_node_status_allocatable",
    "pod-owners": "kube_pod_owner",
    "replicaset-owners": "kube_replicaset_owner",
    "job-owners": "kube_job_owner",
}
_SOURCES: Final[Mapping[str, str]] = {"cpu": "cAdvisor of the kubelets", "memory": "cAdvisor of the kubelets"}
_CONTAINERS: Final = ('container!=""', 'container!="POD"')
_ROOT: Final = 'id="/"'
_CONTROLLER: Final = 'owner_is_controller="true"'
_OWNER: Final = "owner_kind, owner_name"
_PARENTS: Final = (("ReplicaSet", "replicaset-owners", "replicaset"), ("Job", "job-owners", "job_name"))
"""Controllers that have one above them, its metric, and the label of the controller in it."""


class NoSeries(Exception):
    """Prometheus has no series of a metric, or of a node; the text names the fix."""


@dataclass(frozen=True)
class Names:
    """Names of metrics and labels, and matchers that all queries have."""

    metrics: Mapping[str, str] = field(default_factory=lambda: dict(METRICS))
    selector: str = ""
    """Label matchers without braces."""
    node_label: str = "node"
    """Label of cAdvisor's series with the name of the node."""
    classes: Mapping[str, PriorityClass] = field(default_factory=dict)
    """Name of a Kubernetes PriorityClass -> class, before the names that begin with koord-."""
    rate_seconds: int = 300

    def select(self, metric: str, *matchers: str) -> str:
        """Return a selector of series."""
        return selector(self.metrics[metric], *matchers, self.selector)


def node_names(server: Prometheus, names: Names, time_range: TimeRange) -> list[str]:
    """Return the nodes with a capacity in the time range. Raises NoSeries where a metric has no series."""
    for metric in ("cpu", "memory", "pods", "requests", "capacity"):
        series = names.select(metric)
        if not server.exists(series, time_range):
            source = _SOURCES.get(metric, "kube-state-metrics")
            raise NoSeries(
                f"no series {series} from {time_range.start} to {time_range.end}; is {source} scraped? "
                f"else give --metric {metric}=NAME, --selector or another --from and --to"
            )
    series = names.select("capacity", 'resource="cpu"')
    query = f"max by (node) (last_over_time({series}{_window(time_range)}))"
    return label_values(server.instant(query, time_range.end), "node")


def read_day(server: Prometheus, names: Names, node: str, time_range: TimeRange) -> NodeDay:
    """Return the series of one node. Raises CannotRead and BadQuery."""
    node_matcher = f"node={json.dumps(node)}"
    measured_on = f"{names.node_label}={json.dumps(node)}"
    info = server.range(
        f"max by (namespace, pod, uid, priority_class) ({names.select('pods', node_matcher)})", time_range
    )
    usage = {
        Resource.CPU: _by_pod(server, names.select("cpu", measured_on, *_CONTAINERS), time_range, names.rate_seconds),
        Resource.MEMORY: _by_pod(server, names.select("memory", measured_on, *_CONTAINERS), time_range),
    }
    whole = {
        Resource.CPU: f"max(rate({names.select('cpu', measured_on, _ROOT)}[{names.rate_seconds}s]))",
        Resource.MEMORY: f"max({names.select('memory', measured_on, _ROOT)})",
    }
    root_series = {resource: server.range(whole[resource], time_range) for resource in RESOURCES}
    statuses = _status(server, names, node_matcher, time_range)
    return NodeDay(
        time_range=time_range,
        pods=[_labels(row.labels) for row in info],
        is_bound=_stacked(info, time_range) > 0,
        measured={resource: [_name(row.labels) for row in rows] for resource, rows in usage.items()},
        usage={resource: _usable(_stacked(rows, time_range)) for resource, rows in usage.items()},
        node_usage={
            resource: _usable(rows[0].values if rows else np.full(time_range.steps, np.nan))
            for resource, rows in root_series.items()
        },
        requests=_requests(server, names, node_matcher, time_range),
        capacity=statuses[names.metrics["capacity"]],
        allocatable=statuses[names.metrics["allocatable"]],
        owners=_owners(server, names, node_matcher, time_range),
    )


def has_owners(server: Prometheus, names: Names, time_range: TimeRange) -> bool:
    """Return whether the owners of pods are recorded."""
    return server.exists(names.select("pod-owners", _CONTROLLER), time_range)


def _by_pod(server: Prometheus, selector: str, time_range: TimeRange, rate_seconds: int = 0) -> list[StepSeries]:
    inner = f"rate({selector}[{rate_seconds}s])" if rate_seconds else selector
    return server.range(f"sum by (namespace, pod) (max by (namespace, pod, container) ({inner}))", time_range)


def _requests(
    server: Prometheus, names: Names, node_matcher: str, time_range: TimeRange
) -> dict[str, dict[str, float]]:
    """Return the largest requests of the time by UID (else namespace and pod, joined) and resource."""
    by = "namespace, pod, uid, resource"
    inner = f"max_over_time({names.select('requests', node_matcher)}{_window(time_range)})"
    requests: dict[str, dict[str, float]] = {}
    for labels, value in server.instant(f"sum by ({by}) (max by ({by}, container) ({inner}))", time_range.end):
        if np.isfinite(value):
            requests.setdefault(_labels(labels).uid, {})[labels.get("resource", "")] = value
    return requests


def _owners(server: Prometheus, names: Names, node_matcher: str, time_range: TimeRange) -> dict[str, Owner]:
    """Return what controls each pod of a node, by namespace and name."""
    window = _window(time_range)
    here = f"last_over_time({names.select('pods', node_matcher)}{window})"
    series = names.select("pod-owners", _CONTROLLER)
    query = f"max by (namespace, pod, {_OWNER}) (last_over_time({series}{window})) and on (namespace, pod) {here}"
    controllers = {_name(labels): _controller(labels) for labels, _ in server.instant(query, time_range.end)}
    for kind, metric, label in _PARENTS:
        members = sorted({name for controller_kind, name in controllers.values() if controller_kind == kind})
        if not members:
            continue
        matcher = f"{label}=~{json.dumps('|'.join(map(re.escape, members)))}"
        series = names.select(metric, _CONTROLLER, matcher)
        query = f"max by (namespace, {label}, {_OWNER}) (last_over_time({series}{window}))"
        parents = {
            (labels.get("namespace", ""), (kind, labels.get(label, ""))): _controller(labels)
            for labels, _ in server.instant(query, time_range.end)
        }
        controllers = {
            pod: parents.get((pod.namespace, controller), controller) for pod, controller in controllers.items()
        }
    # The UID is that kind and name: series of owners have no other.
    return {
        "/".join(pod): Owner.of_pod(pod.namespace, pod.pod, kind, f"{kind}/{name}")
        for pod, (kind, name) in controllers.items()
    }


def _controller(labels: Mapping[str, str]) -> tuple[str, str]:
    return labels.get("owner_kind", ""), labels.get("owner_name", "")


def _status(server: Prometheus, names: Names, node_matcher: str, time_range: TimeRange) -> dict[str, dict[str, float]]:
    """Return capacity and allocatable by metric and resource."""
    metrics = [names.metrics[name] for name in ("capacity", "allocatable")]
    both = f"__name__=~{json.dumps('|'.join(map(re.escape, metrics)))}"
    series = selector("", both, node_matcher, names.selector)
    query = f"max by (__name__, resource) (last_over_time({series}{_window(time_range)}))"
    amounts: dict[str, dict[str, float]] = {metric: {} for metric in metrics}
    for labels, value in server.instant(query, time_range.end):
        if np.isfinite(value):
            amounts[labels["__name__"]][labels.get("resource", "")] = value
    return amounts


def _labels(labels: Mapping[str, str]) -> PodLabels:
    name = _name(labels)
    return PodLabels(name, labels.get("uid") or "/".join(name), labels.get("priority_class", ""))


def _name(labels: Mapping[str, str]) -> Name:
    return Name(labels.get("namespace", ""), labels.get("pod", ""))


def _stacked(rows: list[StepSeries], time_range: TimeRange) -> FloatArray:
    return np.array([row.values for row in rows]).reshape(-1, time_range.steps)


def _usable(values: FloatArray) -> FloatArray:
    """Return the values that are usage; NaN for an infinite or a negative one."""
    return np.where(np.isfinite(values) & (values >= 0), values, np.nan)


def _window(time_range: TimeRange) -> str:
    return f"[{time_range.steps * time_range.step_seconds}s]"
