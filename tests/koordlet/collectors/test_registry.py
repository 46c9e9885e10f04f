"""The list of collectors is complete, and a new collector needs only one line in it."""

from __future__ import annotations

import importlib
import inspect
import pkgutil

import pytest
from prometheus_client import CollectorRegistry

from koordlet import collectors
from koordlet.cluster.interface import NoCluster
from koordlet.collectors import registry
from koordlet.collectors.interface import Collector, MeasuredValue, MetricDescription, RingShape
from koordlet.metric_cache.interface import TimeWindow
from koordlet.metrics import agent as metrics
from koordlet.node_observer import NodeObserver
from koordlet.prediction.checkpointer import Checkpointer
from koordlet.report.builder import ReportBuilder
from koordlet.samples import SeriesKey, SeriesKind, UsageSample
from tests.host_trees.plain_files import PlainHost

KEY = SeriesKey(SeriesKind.NUMA_NODE, "disk")
READS = MetricDescription("koordlet_disk_reads", "Reads of a disk.", ("disk",), is_counter=True)


def written_collectors():
    """Yield every class of the package with the members of a collector."""
    for module in pkgutil.walk_packages(collectors.__path__, f"{collectors.__name__}."):
        for _name, written in inspect.getmembers(importlib.import_module(module.name), inspect.isclass):
            if written.__module__ == module.name and written is not Collector and is_collector(written):
                yield written


def is_collector(written):
    return all(hasattr(written, member) for member in ("collect", "measurements", "metrics"))


def test_every_written_collector_is_listed_once():
    listed = registry.COLLECTORS
    assert set(written_collectors()) == set(listed)
    assert len(set(listed)) == len(listed)


def test_names_of_collectors_and_metrics_are_unique():
    names = [each.name for each in registry.COLLECTORS]
    metric_names = [metric.name for each in registry.COLLECTORS for metric in each.metrics]
    assert len(set(names)) == len(names)
    assert len(set(metric_names)) == len(metric_names)


class Disks(Collector):
    """A new collector: its class and its line in the list."""

    name = "disks"
    ring = RingShape(interval_ticks=1, max_series=8)
    metrics = (READS,)

    @classmethod
    def on(cls, host):
        return cls()

    def collect(self, tick):
        return {KEY: UsageSample(tick.at_seconds, 2.0)}

    def measurements(self, metric):
        return [MeasuredValue(7.0, ("sda",))]


@pytest.fixture
def observer(tmp_path, monkeypatch):
    monkeypatch.setattr(registry, "COLLECTORS", (*registry.COLLECTORS, Disks))
    PlainHost(tmp_path).set_node(1000, 1 << 30)
    observer = NodeObserver(tmp_path, 100)
    yield observer
    observer.collector.close()


def test_a_listed_collector_reaches_the_cache(observer):
    for second in range(3):
        observer.observe(1000.0 + second, NoCluster(observer.machine_capacity))
    cached = observer.cache.of_collectors["disks"].samples([KEY], TimeWindow(1002.0, 60.0))
    assert cached.values[0, 0].tolist() == [1000.0, 1001.0, 1002.0]


def test_a_listed_collector_reaches_the_metrics(observer):
    prometheus = CollectorRegistry()
    prometheus.register(
        metrics.AgentCollector(
            ReportBuilder(observer),
            metrics.Counts(),
            metrics.TickTimes(),
            {},
            Checkpointer("", "n1", observer.server),
            cluster=NoCluster(observer.machine_capacity),
        )
    )
    assert prometheus.get_sample_value("koordlet_disk_reads_total", {"disk": "sda"}) == 7.0
