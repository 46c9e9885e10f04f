"""Metrics of the pods that wait for a node to pass."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from prometheus_client import metrics_core, registry

from component_base.metric_families import counter
from scheduler_plugin.kube_scheduler.refused_pods import RefusedPods

_PREFIX = "koord_scheduler_plugin_"


@dataclass(frozen=True, eq=False)
class RefusedPodsCollector(registry.Collector):
    """Collector of the refused pods."""

    refused: RefusedPods

    def collect(self) -> Iterable[metrics_core.Metric]:
        """Yield the current samples."""
        text = (
            "Refused pods that kube-scheduler was asked to try again, by cause: a refused node passes (cooled), or "
            "load alone had refused the pod for softAfterSeconds (waited)."
        )
        yield counter(f"{_PREFIX}retried_pods", text, ["cause"], self.refused.woken)
        text = "Refused pods that were dropped because too many waited; want 0."
        yield metrics_core.CounterMetricFamily(f"{_PREFIX}refused_pods_evicted", text, value=self.refused.evicted)
        text = "Pods that wait because no node passed."
        yield metrics_core.GaugeMetricFamily(f"{_PREFIX}refused_pods", text, value=len(self.refused))
