"""Metrics of the live evaluation of predictors and of the calibration, read when a scrape arrives."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client import Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from koordlet.cluster.pods import ClusterState
from koordlet.node_observer import NodeObserver
from koordlet.prediction import allocation
from koordlet.prediction.allocation import WholeAmounts
from koordlet.prediction.evaluation import LiveEvaluation
from koordlet.prediction.server import PredictionServer
from koordlet.samples import RESOURCES, Resource, UsageSample

_LABELS = ("predictor", "resource")


class EvaluationCollector(Collector):
    """Reads the evaluation for a scrape."""

    def __init__(self, evaluation: LiveEvaluation, server: PredictionServer) -> None:
        self._evaluation = evaluation
        self._server = server

    def collect(self) -> Iterable[Metric]:
        """Return the scores of each predictor, and the forecasts since the start."""
        forecasts = GaugeMetricFamily(
            "koordlet_evaluation_forecasts",
            "Forecasts whose horizon has passed, by predictor; one counts half after 7 days.",
            labels=_LABELS,
        )
        violations = GaugeMetricFamily(
            "koordlet_evaluation_violations_ratio", "Share of these forecasts that usage exceeded.", labels=_LABELS
        )
        severity = GaugeMetricFamily(
            "koordlet_evaluation_severity_ratio",
            "Mean excess of the violations, as a share of the usage; absent without a violation.",
            labels=_LABELS,
        )
        savings = GaugeMetricFamily(
            "koordlet_evaluation_savings_ratio",
            "Share of the Prod requests above the forecast peaks.",
            labels=_LABELS,
        )
        for name, record in list(self._evaluation.records.items()):
            for resource, scores in list(record.scores.items()):
                labels = (name, resource)
                forecasts.add_metric(labels, scores.forecasts)
                violations.add_metric(labels, scores.violation_ratio)
                if (mean := scores.severity_ratio) is not None:
                    severity.add_metric(labels, mean)
                savings.add_metric(labels, scores.savings_ratio)
        yield from (forecasts, violations, severity, savings)
        calibration = GaugeMetricFamily(
            "koordlet_calibration_scores",
            "Scores that the calibration has seen; calibrated peaks count from 24 on, alone from 48 on.",
            labels=("resource",),
        )
        for resource, count in self._server.calibration.labels().items():
            calibration.add_metric((resource,), count)
        yield calibration
        switched_off = GaugeMetricFamily(
            "koordlet_predictor_switched_off",
            "Whether a predictor of an installed package is switched off until the agent restarts.",
            labels=("predictor",),
        )
        for name, predictor in self._server.packages.by_name.items():
            switched_off.add_metric((name,), float(predictor.off_reason is not None))
        yield switched_off
        yield from self._counters()

    def _counters(self) -> Iterable[Metric]:
        closed = CounterMetricFamily(
            "koordlet_evaluation_closed_forecasts",
            "Forecasts whose horizon has passed, by whether usage exceeded them.",
            labels=(*_LABELS, "outcome"),
        )
        for outcome, count in list(self._evaluation.outcomes.items()):
            kept_or_not = "violation" if outcome.is_violation else "kept"
            closed.add_metric((outcome.predictor, outcome.resource, kept_or_not), count)
        dropped = CounterMetricFamily(
            "koordlet_evaluation_dropped_forecasts",
            "Forecasts that were dropped before their horizon had passed, by reason.",
            labels=("reason",),
        )
        for reason, count in self._evaluation.dropped.items():
            dropped.add_metric((reason,), count)
        yield from (closed, dropped)


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
        for name, seconds, text in (
            (
                "compared",
                self._comparison.compared,
                "Time for which the usage of Prod and its predicted peak were known.",
            ),
            ("exceeded", self._comparison.exceeded, "Time for which Prod used more than its predicted peak in force."),
        ):
            family = CounterMetricFamily(f"koordlet_prod_peak_{name}_seconds", text, labels=["resource"])
            for resource in RESOURCES:
                family.add_metric([resource], seconds[resource])
            yield family


def _amounts(
    name: str, text: str, rows: Iterable[tuple[tuple[str, ...], WholeAmounts]], labels: tuple[str, ...]
) -> Iterable[Metric]:
    cpu = GaugeMetricFamily(f"koordlet_{name}_cpu_cores", f"CPU {text}.", labels=labels)
    memory = GaugeMetricFamily(f"koordlet_{name}_memory_bytes", f"Memory {text}.", labels=labels)
    for values, amounts in rows:
        cpu.add_metric(values, amounts.in_cores_or_bytes(Resource.CPU))
        memory.add_metric(values, amounts.in_cores_or_bytes(Resource.MEMORY))
    return cpu, memory


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
