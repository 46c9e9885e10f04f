"""Read the nodes of a cluster from series of cAdvisor and kube-state-metrics, one node and day at a time.

Series of the two Prometheus of an HA pair are merged by their maximum. Counters are read by `rate`, which handles their
resets. A pod is identified by its UID: one that moves or is created again is another pod.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from api_types.kubernetes.priority_and_qos import PriorityClass
from component_base.prometheus import label_values, selector
from koordctl.backtest.node_day import Name, NodeDay, PodLabels
from koordctl.backtest.prometheus import Prometheus, StepSeries, TimeRange
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
_CONTAINERS: Final = ('container!=""', 'container!="POD"')
_ROOT: Final = 'id="/"'


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
    )


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
