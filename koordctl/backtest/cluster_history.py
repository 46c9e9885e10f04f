"""Read the history of the nodes of a cluster from series of cAdvisor and kube-state-metrics.

Series of the two Prometheus of an HA pair are merged by their maximum. Counters are read by `rate`, which handles their
resets. A pod is identified by its UID: one that moves or is created again is another pod.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from api_types.kubernetes.priority_and_qos import PriorityClass
from koordctl.backtest import prometheus, traces
from koordctl.backtest.node_history import BoundPod, NodeHistory
from koordctl.backtest.placement import Pod
from koordctl.backtest.prometheus import Prometheus, TimeRange
from koordlet.prediction.allocation import WholeAmounts
from koordlet.prediction.buckets import FloatArray
from koordlet.samples import RESOURCES, Resource

METRICS: Final[Mapping[str, str]] = {
    "cpu": "container_cpu_usage_seconds_total",
    "memory": "container_memory_working_set_bytes",
    "pods": "kube_pod_info",
    "requests": "kube_pod_container_resource_requests",
    "capacity": "kube_node_status_capacity",
    "allocatable": "kube_node_status_allocatable",
}
_SOURCES: Final[Mapping[str, str]] = {"cpu": "cAdvisor of the kubelets", "memory": "cAdvisor of the kubelets"}
_FILL_SECONDS: Final = traces.SHORT_GAP_SECONDS


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
        return f"{self.metrics[metric]}{{{','.join([*matchers, *filter(None, [self.selector])])}}}"


def class_of(name: str, classes: Mapping[str, PriorityClass]) -> PriorityClass:
    """Return the class of the name of a Kubernetes PriorityClass; Prod for any other, which errs on the safe side."""
    if name in classes:
        return classes[name]
    suffix = name.removeprefix("koord-").removeprefix("koordinator-")
    known = {"mid": PriorityClass.MID, "batch": PriorityClass.BATCH, "free": PriorityClass.FREE}
    return known.get(suffix, PriorityClass.PROD)


def node_names(server: Prometheus, names: Names, time_range: TimeRange) -> list[str]:
    """Return the nodes with a capacity in the time range. Raises NoSeries where a metric has no series."""
    for metric in ("cpu", "memory", "pods", "requests", "capacity"):
        selector = names.select(metric)
        if not server.exists(selector, time_range):
            source = _SOURCES.get(metric, "kube-state-metrics")
            raise NoSeries(
                f"no series {selector} from {time_range.start} to {time_range.end}; is {source} scraped? "
                f"else give --metric {metric}=NAME, --selector or another --from and --to"
            )
    window = f"[{time_range.end - time_range.start + time_range.step_seconds}s]"
    selector = names.select("capacity", 'resource="cpu"')
    query = f"max by (node) (last_over_time({selector}{window}))"
    return prometheus.names_of(server.instant(query, time_range.end), "node")


def read(server: Prometheus, names: Names, node: str, time_range: TimeRange) -> NodeHistory:
    """Return the history of one node. Raises NoSeries where none of its pods was measured."""
    of_node = f"node={json.dumps(node)}"
    measured_on = f"{names.node_label}={json.dumps(node)}"
    info = server.range(f"max by (namespace, pod, uid, priority_class) ({names.select('pods', of_node)})", time_range)
    requests = _requests(server, names, of_node, time_range)
    usage = {
        Resource.CPU: _by_pod(server, names.select("cpu", measured_on, *_CONTAINERS), time_range, names.rate_seconds),
        Resource.MEMORY: _by_pod(server, names.select("memory", measured_on, *_CONTAINERS), time_range),
    }
    bound: list[BoundPod] = []
    stays: list[Pod] = []
    rows: dict[Resource, list[FloatArray]] = {resource: [] for resource in RESOURCES}
    for series in info:
        labels = series.labels
        key = labels.get("namespace", ""), labels.get("pod", "")
        of_pod = {resource: usage[resource].get(key) for resource in RESOURCES}
        cpu, memory = of_pod[Resource.CPU], of_pod[Resource.MEMORY]
        present = np.isfinite(series.values)
        if cpu is None or memory is None:
            continue
        known = present & np.isfinite(cpu) & np.isfinite(memory)
        if not known.any():
            continue
        first, last = int(np.argmax(known)), int(len(known) - np.argmax(known[::-1]))
        uid = labels.get("uid") or "/".join(key)
        bound.append(_bound(uid, labels, requests, names.classes))
        stays.append(Pod(len(stays), first, last))
        for resource, values in ((Resource.CPU, cpu), (Resource.MEMORY, memory)):
            rows[resource].append(np.where(known, values, np.nan))
    if not bound:
        raise NoSeries(
            f"node {node}: no pod has usage and requests; do cAdvisor's series have the label {names.node_label}? "
            "else give --node-label"
        )
    filled = {resource: _filled(np.array(each), time_range.step_seconds) for resource, each in rows.items()}
    capacity = _amounts(server, names.select("capacity", of_node), time_range)
    allocatable = _amounts(server, names.select("allocatable", of_node), time_range) or capacity
    whole = _whole_node(server, names, measured_on, time_range)
    return NodeHistory(node, time_range.step_seconds, bound, stays, filled, whole, capacity, allocatable)


_CONTAINERS: Final = ('container!=""', 'container!="POD"')


def _by_pod(
    server: Prometheus, selector: str, time_range: TimeRange, rate_seconds: int = 0
) -> dict[tuple[str, str], FloatArray]:
    inner = f"rate({selector}[{rate_seconds}s])" if rate_seconds else selector
    query = f"sum by (namespace, pod) (max by (namespace, pod, container) ({inner}))"
    return {
        (each.labels.get("namespace", ""), each.labels.get("pod", "")): each.values
        for each in server.range(query, time_range)
    }


def _requests(server: Prometheus, names: Names, of_node: str, time_range: TimeRange) -> dict[tuple[str, str], float]:
    """Return requests by UID (else namespace and pod, joined) and resource."""
    window = f"[{time_range.end - time_range.start + time_range.step_seconds}s]"
    inner = f"max_over_time({names.select('requests', of_node)}{window})"
    by = "namespace, pod, uid, resource"
    query = f"sum by ({by}) (max by ({by}, container) ({inner}))"
    found = {}
    for labels, value in server.instant(query, time_range.end):
        uid = labels.get("uid") or f"{labels.get('namespace', '')}/{labels.get('pod', '')}"
        found[uid, labels.get("resource", "")] = value
    return found


def _bound(
    uid: str,
    labels: Mapping[str, str],
    requests: Mapping[tuple[str, str], float],
    classes: Mapping[str, PriorityClass],
) -> BoundPod:
    without_uid = f"{labels.get('namespace', '')}/{labels.get('pod', '')}"

    def requested(resource: str) -> float:
        return requests.get((uid, resource), requests.get((without_uid, resource), 0.0))

    return BoundPod(
        uid=uid,
        priority_class=class_of(labels.get("priority_class", ""), classes),
        cpu_request_millis=round(1000 * requested("cpu")),
        memory_request_bytes=round(requested("memory")),
        mid_cpu_request_millis=round(requested("kubernetes_io_mid_cpu")),
        mid_memory_request_bytes=round(requested("kubernetes_io_mid_memory")),
    )


def _amounts(server: Prometheus, selector: str, time_range: TimeRange) -> WholeAmounts | None:
    window = f"[{time_range.end - time_range.start + time_range.step_seconds}s]"
    found = server.instant(f"max by (resource) (last_over_time({selector}{window}))", time_range.end)
    by_resource = {labels.get("resource"): value for labels, value in found}
    if not {"cpu", "memory"} <= by_resource.keys():
        return None
    return WholeAmounts(round(1000 * by_resource["cpu"]), round(by_resource["memory"]))


def _whole_node(
    server: Prometheus, names: Names, measured_on: str, time_range: TimeRange
) -> dict[Resource, FloatArray] | None:
    """Return the usage of the root cgroup; None where a step has none."""
    root = 'id="/"'
    queries = {
        Resource.CPU: f"max(rate({names.select('cpu', measured_on, root)}[{names.rate_seconds}s]))",
        Resource.MEMORY: f"max({names.select('memory', measured_on, root)})",
    }
    found = {resource: server.range(query, time_range) for resource, query in queries.items()}
    if not all(found.values()):
        return None
    return {
        resource: _filled(each[0].values[np.newaxis], time_range.step_seconds)[0] for resource, each in found.items()
    }


def _filled(values: FloatArray, step_seconds: int) -> FloatArray:
    return traces.without_short_gaps(values, _FILL_SECONDS // step_seconds)
