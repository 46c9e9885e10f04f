"""The metrics of a window: how old its data is, and how many nodes have a measurement."""

import math

import prometheus_client
import pytest

from scheduler_plugin.load_watcher.analysis import Anomaly, AnomalyKind
from scheduler_plugin.load_watcher.metrics import WatcherMetrics
from scheduler_plugin.load_watcher.records import DURATIONS_SECONDS, Data, Metric, NodeMetrics, Snapshot, Window
from scheduler_plugin.load_watcher.watcher import Refreshed
from scheduler_plugin.load_watcher.windows import Windows
from tests.scheduler_plugin.factories import Clock


class Scene:
    """Windows, their metrics, and a clock that a test sets."""

    def __init__(self):
        self.registry = prometheus_client.CollectorRegistry()
        self.windows, self.clock = Windows(900.0), Clock()
        self.metrics = WatcherMetrics(self.registry, ["Prometheus"], self.windows, self.clock)

    def store(self, end, nodes=None):
        snapshot = Snapshot(window=Window("15m", end - 900, end), data=Data(nodes or {}))
        self.windows.store(snapshot)
        return snapshot

    def value(self, name, **labels):
        return self.registry.get_sample_value(f"koord_load_watcher_{name}", labels)


@pytest.mark.parametrize("window", DURATIONS_SECONDS)
def test_the_age_of_a_window_without_data_is_not_a_number(window):
    assert math.isnan(Scene().value("window_age_seconds", window=window))


def test_the_age_of_a_window_counts_from_the_end_of_its_newest_data_to_the_scrape():
    scene = Scene()
    for end in (1_000, 1_060, 1_120):
        scene.store(end)
    for scene.clock.seconds, age in ((1_150.0, 30.0), (1_200.0, 80.0)):
        assert scene.value("window_age_seconds", window="15m") == age
    assert math.isnan(scene.value("window_age_seconds", window="5m"))


def test_a_refresh_counts_its_problems_and_the_nodes_with_a_measurement():
    scene = Scene()
    usable = NodeMetrics([Metric(type="CPU", operator="AVG", value=30.0)])
    snapshot = scene.store(1_000, {"a": usable, "b": usable, "c": NodeMetrics()})
    scene.metrics.observe(Refreshed("15m", snapshot, {}, ["a part is missing", "they disagree"], []))
    assert (scene.value("refreshes_total"), scene.value("problems_total")) == (1.0, 2.0)
    assert scene.value("provider_failures_total", provider="Prometheus") == 0.0
    assert (scene.value("nodes", window="15m"), scene.value("nodes", window="5m")) == (2.0, 0.0)
    scene.metrics.observe(Refreshed("15m", None, {"Prometheus": "refused"}, [], []))
    assert (scene.value("refreshes_total"), scene.value("problems_total")) == (2.0, 2.0)
    assert scene.value("provider_failures_total", provider="Prometheus") == 1.0
    assert scene.value("nodes", window="15m") == 0.0


def test_a_refresh_counts_its_findings_by_kind():
    scene = Scene()
    kinds = [AnomalyKind.FROZEN, AnomalyKind.FROZEN, AnomalyKind.MISSING]
    scene.metrics.observe(Refreshed("15m", None, {}, [], [Anomaly(kind, "a", "wrong") for kind in kinds]))
    assert [scene.value("findings_total", finding=kind) for kind in ("frozen", "missing", "silent")] == [2.0, 1.0, 0.0]
