"""Metrics of the live evaluation of predictors and of the calibration, read when a scrape arrives."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client import Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from koordlet.prediction.evaluation import LiveEvaluation
from koordlet.prediction.server import PredictionServer

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
