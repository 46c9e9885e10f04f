"""Metrics of the node: live evaluation, resources, suppression, and the Mid pods by namespace.

Namespaces are made by tenants, so the largest have a series of their own and the others share one. Values are read
when a scrape arrives, and a namespace without Mid pods on the node has no series.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from prometheus_client import Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from api_types.kubernetes.priority_and_qos import PriorityClass
from component_base.metric_families import counter, gauge
from koordlet.cluster.pods import ClusterState, PodOnNode
from koordlet.mid_suppression.suppressor import Suppressor
from koordlet.node_observer import NodeObserver
from koordlet.prediction import allocation
from koordlet.prediction.allocation import WholeAmounts
from koordlet.prediction.evaluation import LiveEvaluation
from koordlet.prediction.server import PredictionServer
from koordlet.samples import RESOURCES, Resource, SeriesKey, UsageSample, pod_key

_LABELS = ("predictor", "resource")


class EvaluationCollector(Collector):
    """Reads the evaluation for a scrape."""

    def __init__(self, evaluation: LiveEvaluation, server: PredictionServer) -> None:
        self._evaluation = evaluation
        self._server = server

    def collect(self) -> Iterable[Metric]:
        """Return the scores of each predictor, and the forecasts since the start."""
        scores = [
            ((name, resource), of_resource)
            for name, record in list(self._evaluation.records.items())
            for resource, of_resource in list(record.scores.items())
        ]
        forecasts = [(labels, of_resource.forecasts) for labels, of_resource in scores]
        text = "Forecasts whose horizon has passed, by predictor; one counts half after 7 days."
        yield gauge("koordlet_evaluation_forecasts", text, _LABELS, forecasts)
        violations = [(labels, of_resource.violation_ratio) for labels, of_resource in scores]
        text = "Share of these forecasts that usage exceeded."
        yield gauge("koordlet_evaluation_violations_ratio", text, _LABELS, violations)
        severity = [(labels, mean) for labels, one in scores if (mean := one.severity_ratio) is not None]
        text = "Mean excess of the violations, as a share of the usage; absent without a violation."
        yield gauge("koordlet_evaluation_severity_ratio", text, _LABELS, severity)
        savings = [(labels, of_resource.savings_ratio) for labels, of_resource in scores]
        text = "Share of the Prod requests above the forecast peaks."
        yield gauge("koordlet_evaluation_savings_ratio", text, _LABELS, savings)
        text = "Scores that the calibration has seen; calibrated peaks count from 24 on, alone from 48 on."
        yield gauge("koordlet_calibration_scores", text, ["resource"], self._server.calibration.labels())
        text = "Whether a predictor of an installed package is switched off until the agent restarts."
        packages = self._server.packages.by_name.items()
        off = {name: float(predictor.off_reason is not None) for name, predictor in packages}
        yield gauge("koordlet_predictor_switched_off", text, ["predictor"], off)
        text = "Forecasts whose horizon has passed, by whether usage exceeded them."
        closed = [
            ((outcome.predictor, outcome.resource, "violation" if outcome.is_violation else "kept"), count)
            for outcome, count in list(self._evaluation.outcomes.items())
        ]
        yield counter("koordlet_evaluation_closed_forecasts", text, (*_LABELS, "outcome"), closed)
        text = "Forecasts that were dropped before their horizon had passed, by reason."
        yield counter("koordlet_evaluation_dropped_forecasts", text, ["reason"], self._evaluation.dropped)


class NodeResourcesCollector(Collector):
    """Reads the cluster's view of the node for a scrape."""

    def __init__(self, observer: NodeObserver, cluster: ClusterState, comparison: PeakComparison) -> None:
        self._observer = observer
        self._cluster = cluster
        self._comparison = comparison

    def collect(self) -> Iterable[Metric]:
        """Return allocatable, requests, and the time above the peak; unknown values are absent."""
        allocatable = self._cluster.allocatable
        yield from _amounts(
            "allocatable", "that the node leaves to pods", [] if allocatable is None else [((), allocatable)], ()
        )
        pods = self._observer.pods_by_uid.values() if self._cluster.pods.synced else None
        requests = (
            []
            if pods is None
            else [(("prod",), allocation.allocated_to_prod(pods)), (("mid",), allocation.allocated_to_mid(pods))]
        )
        yield from _amounts(
            "requests",
            "that admitted pods request, by kind: native requests of Prod, or Mid resources",
            requests,
            ("kind",),
        )
        text = "Time for which the usage of Prod and its predicted peak were known."
        yield counter("koordlet_prod_peak_compared_seconds", text, ["resource"], self._comparison.compared)
        text = "Time for which Prod used more than its predicted peak in force."
        yield counter("koordlet_prod_peak_exceeded_seconds", text, ["resource"], self._comparison.exceeded)


def _amounts(
    name: str, text: str, rows: Sequence[tuple[tuple[str, ...], WholeAmounts]], labels: tuple[str, ...]
) -> Iterable[Metric]:
    for resource, end, shown in ((Resource.CPU, "cpu_cores", "CPU"), (Resource.MEMORY, "memory_bytes", "Memory")):
        series = [(values, amounts.in_cores_or_bytes(resource)) for values, amounts in rows]
        yield gauge(f"koordlet_{name}_{end}", f"{shown} {text}.", labels, series)


class PeakComparison:
    """Seconds for which usage was above the predicted peak in force, of those for which both were known."""

    def __init__(self) -> None:
        self.compared: dict[Resource, float] = dict.fromkeys(RESOURCES, 0.0)
        self.exceeded: dict[Resource, float] = dict.fromkeys(RESOURCES, 0.0)

    def add(self, seconds: float, usage: UsageSample | None, peak: WholeAmounts | None) -> None:
        """Add the time since the last sample. While usage or peak is unknown nothing is compared."""
        if usage is None or peak is None:
            return
        for resource, used in zip(RESOURCES, usage, strict=True):
            self.compared[resource] += seconds
            if used > peak.in_cores_or_bytes(resource):
                self.exceeded[resource] += seconds


MOST_NAMESPACES: Final = 20
"""Namespaces of a node with series of their own."""
OTHER: Final = "_other"
"""Label of the sum over the other namespaces; an underscore is in the name of no namespace."""


class MidOfNamespace(NamedTuple):
    """Mid resources of one namespace on the node, in cores and bytes."""

    requested_cpu_cores: float = 0.0
    requested_memory_bytes: float = 0.0
    used_cpu_cores: float = 0.0
    used_memory_bytes: float = 0.0
    suppressed_cpu_cores: float = 0.0

    def plus(self, other: MidOfNamespace) -> MidOfNamespace:
        """Return the sum."""
        return MidOfNamespace(*(mine + its for mine, its in zip(self, other, strict=True)))


_MEANINGS: Final = {
    "requested_cpu_cores": "mid-cpu that admitted pods of a namespace request on this node, in cores.",
    "requested_memory_bytes": "mid-memory that admitted pods of a namespace request on this node.",
    "used_cpu_cores": "Newest CPU usage of the Mid pods of a namespace on this node.",
    "used_memory_bytes": "Newest memory usage of the Mid pods of a namespace on this node.",
    "suppressed_cpu_cores": "CPU by which suppression has lowered the limits of the Mid pods of a namespace here.",
}


def by_namespace(
    pods: Iterable[PodOnNode], newest: Mapping[SeriesKey, UsageSample], most: int = MOST_NAMESPACES
) -> dict[str, MidOfNamespace]:
    """Return the Mid resources of each namespace that has some, at most `most` of them and a sum of the others."""
    namespaces: dict[str, MidOfNamespace] = {}
    for pod in pods:
        requests_mid = pod.mid_cpu_request_millis or pod.mid_memory_request_bytes
        if not pod.is_admitted or not (requests_mid or pod.priority_class is PriorityClass.MID):
            continue
        namespaces[pod.namespace] = namespaces.get(pod.namespace, MidOfNamespace()).plus(_pod_resources(pod, newest))
    if len(namespaces) <= most:
        return namespaces
    largest = sorted(
        namespaces,
        key=lambda name: (-namespaces[name].requested_cpu_cores, -namespaces[name].requested_memory_bytes, name),
    )
    shown = {name: namespaces[name] for name in largest[:most]}
    return {**shown, OTHER: functools.reduce(MidOfNamespace.plus, (namespaces[name] for name in largest[most:]))}


def _pod_resources(pod: PodOnNode, newest: Mapping[SeriesKey, UsageSample]) -> MidOfNamespace:
    usage = newest.get(pod_key(pod.uid)) if pod.priority_class is PriorityClass.MID else None
    limited = pod.mid.containers if pod.mid else ()
    return MidOfNamespace(
        pod.mid_cpu_request_millis / 1000,
        pod.mid_memory_request_bytes,
        usage.cpu_cores if usage else 0.0,
        usage.memory_bytes if usage else 0.0,
        sum(max(container.original_millis - container.limit_millis, 0) for container in limited) / 1000,
    )


class MidNamespacesCollector(Collector):
    """Reads the pods of the last tick for a scrape."""

    def __init__(self, observer: NodeObserver) -> None:
        self._observer = observer

    def collect(self) -> Iterable[Metric]:
        """Return the Mid resources of each namespace; nothing before the pods are known."""
        namespaces = by_namespace(self._observer.pods_by_uid.values(), self._observer.newest)
        for field, text in _MEANINGS.items():
            values = {namespace: getattr(amounts, field) for namespace, amounts in namespaces.items()}
            yield gauge(f"koordlet_namespace_mid_{field}", text, ["namespace"], values)


class SuppressionCollector(Collector):
    """Reads the suppressor for a scrape."""

    def __init__(self, suppressor: Suppressor) -> None:
        self._suppressor = suppressor

    def collect(self) -> Iterable[Metric]:
        """Return patches by outcome, pods with lowered limits, and what Mid pods may use."""
        text = "Patches of CPU limits of Mid pods, by direction and outcome."
        yield counter(
            "koordlet_suppression_patches", text, ["kind", "outcome"], self._suppressor.sender.patches.items()
        )
        yield CounterMetricFamily(
            "koordlet_suppression_failures",
            "Plans and patches of the suppression that failed by an error of the agent.",
            self._suppressor.failures,
        )
        yield GaugeMetricFamily(
            "koordlet_suppression_lowered_pods",
            "Mid pods with a CPU limit below their original.",
            self._suppressor.lowered_pods,
        )
        yield GaugeMetricFamily(
            "koordlet_suppression_threshold_ratio",
            "Share of the node's CPU above which limits are lowered; 0 while suppression is off or not known.",
            (self._suppressor.threshold_percent() or 0) / 100,
        )
        text = "CPU that the Mid pods may use; absent while suppression is off or blind."
        millis = self._suppressor.planner.allowed_millis
        yield gauge("koordlet_suppression_allowed_cpu_cores", text, [], [] if millis is None else [([], millis / 1000)])
