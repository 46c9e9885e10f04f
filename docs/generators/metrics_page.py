"""Page docs/reference/metrics.md: every metric, from the registries that the programs fill."""

from __future__ import annotations

import pathlib
import tempfile
import time
from collections.abc import Callable, Iterator
from typing import Any, Final

from prometheus_client import CollectorRegistry, metrics_core

from apiserver_client import watching
from apiserver_client.backoff import Backoff
from console import __main__ as console
from console.view import FleetView
from docs.generators import markdown
from koordlet import node_observer
from koordlet.agent import Agent
from koordlet.influxdb_exporter.exporter import InfluxDbExporter
from koordlet.influxdb_exporter.writer import PointQueue, Writer
from koordlet.metrics.agent import ExporterCollector
from koordlet.settings import KoordletSettings
from manager.cli.admission import webhook
from manager.metrics.telemetry import Telemetry
from manager.mid_resource.reasons import Reason
from manager.slo_config.evaluation import State
from scheduler_plugin.app import metrics as scheduler_metrics
from scheduler_plugin.assembly import Parts
from scheduler_plugin.config import loader
from scheduler_plugin.load_watcher.records import Windows
from scheduler_plugin.load_watcher.watcher import WatcherMetrics
from scheduler_plugin.plugins.trimaran.feed import FallbackCollector

_INTRODUCTION: Final = """
Every program serves `/metrics` in Prometheus' text format on the port of its probes: koordlet on 9316, koord-manager on
9317, koord-admission on 9318, the scheduler plugin on 10262, a separate load watcher on its `--http-port`. Labels have
values of fixed sets, except `node`, `namespace` and `pod`. Counters exist from the start as 0, and their names end in
`_total`. Each program also serves the usual `process_*` and `python_*` metrics. kube-scheduler with the plugin counts
on 10259 (HTTPS) attempts to place a pod without an answer: `koord_suite_unasked_pods_total{result}`, passed or held.
"""


def koordlet_registry() -> CollectorRegistry:
    """Return the registry of an agent, with the metrics that appear only after its first report and checkpoint."""
    registry = CollectorRegistry()
    with tempfile.TemporaryDirectory() as folder:
        agent = Agent(
            KoordletSettings(node_name="n1", state_dir=""),
            node_observer.NodeObserver(pathlib.Path(folder), 100),
            registry,
        )
        agent.observer.newest_at_seconds = agent.counts.last_report_seconds = agent.checkpointer.written_seconds = 0.0
    registry.register(ExporterCollector(_idle_exporter()))
    return registry


def _idle_exporter() -> InfluxDbExporter:
    """Return an InfluxDB exporter that was never started: its counters alone are read."""
    queue = PointQueue(1)
    nowhere: Any = None
    exporter = Writer(queue, nowhere, batch_points=1, timeout_ms=1, backoff=Backoff(1.0, 1.0))
    exporter.last_success_seconds = 0.0
    return InfluxDbExporter("n1", queue, exporter, interval_seconds=1, first_seconds=0.0)


def manager_registry() -> CollectorRegistry:
    """Return the registry of a manager."""
    registry = CollectorRegistry()
    Telemetry(registry, reasons=[*Reason], states=[*State])
    return registry


def scheduler_plugin_registry() -> CollectorRegistry:
    """Return the registry of a scheduler plugin with every plugin that has metrics."""
    registry = CollectorRegistry()
    with_measurements = {"plugins": {"score": {"enabled": [{"name": "TargetLoadPacking"}]}}}
    parts = Parts(loader.parse(with_measurements))
    for collector in parts.collectors():
        registry.register(collector)
    registry.register(scheduler_metrics.RefusedPodsCollector(parts.refused))
    registry.register(scheduler_metrics.StateCollector(parts.cluster, {"pods": watching.WatchState()}))
    scheduler_metrics.RequestMetrics(registry)
    registry.register(FallbackCollector(parts.measured[0], parts.vectors, time.time))
    return registry


def admission_registry() -> CollectorRegistry:
    """Return the registry of koord-admission."""
    registry = CollectorRegistry()
    webhook.certificate_gauge(registry)
    return registry


def load_watcher_registry() -> CollectorRegistry:
    """Return the registry of a load watcher."""
    registry = CollectorRegistry()
    WatcherMetrics(registry, ["NodeMetric"], Windows(900.0), time.time)
    return registry


def console_registry() -> CollectorRegistry:
    """Return the registry of a console."""
    registry = CollectorRegistry()
    console.add_metrics(registry, FleetView)
    return registry


REGISTRIES: Final[dict[str, Callable[[], CollectorRegistry]]] = {
    "koordlet": koordlet_registry,
    "koord-manager": manager_registry,
    "koord-admission": admission_registry,
    "scheduler plugin": scheduler_plugin_registry,
    "load watcher": load_watcher_registry,
    "console": console_registry,
}
"""Title of the section -> registry of the program."""


def page() -> str:
    """Return the whole page."""
    parts = [markdown.head("Metrics", "the registries of the programs"), _INTRODUCTION]
    for title, registry in REGISTRIES.items():
        rows = sorted(set(described(registry())))
        parts += [f"\n## {title}\n", markdown.table(("name", "type", "labels", "meaning"), rows)]
    return "".join(parts)


def described(registry: CollectorRegistry) -> Iterator[markdown.Row]:
    """Return name, type, labels and help of each metric of a registry."""
    for collector in list(registry._collector_to_names):  # noqa: SLF001  # the registry has no public list
        own_labels = getattr(collector, "_labelnames", None)
        for family in collector.collect():
            labels = own_labels if own_labels is not None else _labels(family)
            name = f"{family.name}_total" if family.type == "counter" else family.name
            yield f"`{name}`", family.type, ", ".join(f"`{each}`" for each in labels), family.documentation


def _labels(family: metrics_core.Metric) -> tuple[str, ...]:
    declared: Any = getattr(family, "_labelnames", None)
    if declared is not None:
        return tuple(declared)
    found = dict.fromkeys(label for sample in family.samples for label in sample.labels if label != "le")
    return tuple(found)
