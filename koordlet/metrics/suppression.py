"""Metrics of the suppression of Mid pods. Values are read when a scrape arrives."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client import Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from koordlet.mid_suppression.suppressor import Suppressor


class SuppressionCollector(Collector):
    """Reads the suppressor for a scrape."""

    def __init__(self, suppressor: Suppressor) -> None:
        self._suppressor = suppressor

    def collect(self) -> Iterable[Metric]:
        """Return patches by outcome, pods with lowered limits, and what Mid pods may use."""
        patches = CounterMetricFamily(
            "koordlet_suppression_patches",
            "Patches of CPU limits of Mid pods, by direction and outcome.",
            labels=["kind", "outcome"],
        )
        for (direction, outcome), count in self._suppressor.sender.patches.items():
            patches.add_metric([direction, outcome], count)
        yield patches
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
        allowed = GaugeMetricFamily(
            "koordlet_suppression_allowed_cpu_cores",
            "CPU that the Mid pods may use; absent while suppression is off or blind.",
            labels=[],
        )
        if self._suppressor.planner.allowed_millis is not None:
            allowed.add_metric([], self._suppressor.planner.allowed_millis / 1000)
        yield allowed
