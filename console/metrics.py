"""Metrics of the console in the cluster, taken from its newest snapshot when a scrape arrives."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from prometheus_client import CollectorRegistry
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from console.seen import Seen


class ConsoleCollector(Collector):
    """Collector of the age and the size of the newest snapshot; `seen` returns it."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.seen: Callable[[], Seen] = Seen
        registry.register(self)

    def collect(self) -> Iterable[GaugeMetricFamily]:
        """Describe the newest snapshot; before the first one the time is 0."""
        seen = self.seen()
        time = seen.snapshot.time.timestamp() if seen.snapshot else 0.0
        yield GaugeMetricFamily(
            "koord_console_snapshot_timestamp_seconds", "Unix time of the newest snapshot; 0 before the first.", time
        )
        yield GaugeMetricFamily("koord_console_snapshot_nodes", "Nodes in the newest snapshot.", len(seen.nodes))
        yield GaugeMetricFamily(
            "koord_console_read_duration_seconds", "Time that the newest snapshot took.", seen.read_seconds
        )
        yield GaugeMetricFamily(
            "koord_console_read_failed", "Whether the last attempt to read a snapshot failed.", float(bool(seen.error))
        )
