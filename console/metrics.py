"""Metrics of the console in the cluster, taken from its newest snapshot when a scrape arrives."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from prometheus_client import CollectorRegistry
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from console.view import FleetView


class ConsoleCollector(Collector):
    """Collector of the age and the size of the newest snapshot; `view` returns it."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.view: Callable[[], FleetView] = FleetView
        registry.register(self)

    def collect(self) -> Iterable[GaugeMetricFamily]:
        """Describe the newest snapshot; before the first one the time is 0."""
        view = self.view()
        time = view.snapshot.time.timestamp() if view.snapshot else 0.0
        yield GaugeMetricFamily(
            "koord_console_snapshot_timestamp_seconds", "Unix time of the newest snapshot; 0 before the first.", time
        )
        yield GaugeMetricFamily("koord_console_snapshot_nodes", "Nodes in the newest snapshot.", len(view.nodes))
        yield GaugeMetricFamily(
            "koord_console_read_duration_seconds", "Time that the newest snapshot took.", view.read_seconds
        )
        yield GaugeMetricFamily(
            "koord_console_read_failed", "Whether the last attempt to read a snapshot failed.", float(bool(view.error))
        )
