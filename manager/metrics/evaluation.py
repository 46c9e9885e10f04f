"""Metrics of the live evaluation of predictors over all nodes, combined when a scrape arrives."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from prometheus_client import CollectorRegistry
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from api_types.node_metric import evaluation_report
from api_types.node_metric.evaluation_report import Packed


class FleetEvaluationCollector(Collector):
    """Collector of the scores of each predictor; `reports` returns the newest evaluation of each node."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.reports: Callable[[], Iterable[Packed]] = list
        registry.register(self)

    def collect(self) -> Iterable[GaugeMetricFamily]:
        """Combine the evaluations of all nodes."""
        labels = ("predictor", "resource")
        nodes = GaugeMetricFamily(
            "koord_manager_evaluation_nodes", "Nodes that report an evaluation of a predictor.", labels=labels
        )
        forecasts = GaugeMetricFamily(
            "koord_manager_evaluation_forecasts",
            "Forecasts of a predictor on all nodes; one counts half after 7 days.",
            labels=labels,
        )
        violations = GaugeMetricFamily(
            "koord_manager_evaluation_violations_ratio",
            "Share of the forecasts of all nodes that usage exceeded.",
            labels=labels,
        )
        savings = GaugeMetricFamily(
            "koord_manager_evaluation_savings_ratio",
            "Share of the Prod requests above the forecast peaks, over all nodes, weighted by forecasts.",
            labels=labels,
        )
        for of, fleet in evaluation_report.combined(self.reports()).items():
            nodes.add_metric(of, fleet.nodes)
            forecasts.add_metric(of, fleet.forecasts)
            violations.add_metric(of, fleet.violation_ratio)
            savings.add_metric(of, fleet.savings_ratio)
        yield from (nodes, forecasts, violations, savings)
