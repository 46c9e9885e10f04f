"""The metrics page: names and help by the conventions of Prometheus, counters from 0 on, no unmeasured value."""

from __future__ import annotations

import re
import types
from pathlib import Path

import prometheus_client
import pytest
from prometheus_client import CollectorRegistry, parser

from api_types.node_metric import types as node_metric
from apiserver_client.watching import WatchState
from koordlet import node_observer
from koordlet.agent import Agent
from koordlet.cluster import spec_in_force
from koordlet.cluster.pods import NoCluster
from koordlet.metrics import agent as metrics
from koordlet.metrics.node import SuppressionCollector
from koordlet.mid_suppression.suppressor import ResizeOutcome as Patched
from koordlet.node_observer import NodeObserver
from koordlet.prediction.checkpointer import Checkpointer
from koordlet.report.builder import ReportBuilder
from koordlet.samples import NODE, Resource
from koordlet.settings import KoordletSettings
from tests.host_trees.plain_files import PlainHost
from tests.koordlet.metrics.page import Page
from tests.koordlet.one_node import OneNode, StaticCluster, bound_pod

# The units and words that promtool's linter refuses in a name.
NOT_BASE_UNITS = (
    "milliseconds|minutes|hours|days|weeks|millicores|kelvin|kilobytes|megabytes|gigabytes|kib|mib|gib|percent|percents"
)
TYPE_WORDS = "gauge|counter|summary|histogram|map"


@pytest.fixture
def page_agent(tmp_path):
    host = PlainHost(tmp_path)
    host.set_node(1000, 1 << 30)
    observer = node_observer.NodeObserver(tmp_path, 100)
    prometheus_client.disable_created_metrics()
    registry = prometheus_client.CollectorRegistry()
    yield Agent(KoordletSettings(node_name="n1", state_dir=str(tmp_path)), observer, registry), registry
    prometheus_client.enable_created_metrics()
    observer.collector.close()


def families(registry):
    text = prometheus_client.generate_latest(registry).decode()
    return {family.name: family for family in parser.text_string_to_metric_families(text)}


def samples(registry):
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in families(registry).values()
        for sample in family.samples
    }


def at_work(page_agent):
    cluster = NoCluster(page_agent.observer.machine_capacity())
    policy = spec_in_force.predict_policy(None)
    page_agent.reports.predict(0.0, cluster, policy)
    for second in range(3):
        page_agent.observer.observe(1e9 + second, cluster)
    page_agent.reports.predict(1e9 + 2, cluster, policy)
    page_agent.observer.train(1e9 + 2, spec_in_force.predict_parameters(policy))
    page_agent.reports.predict(1e9 + 3, cluster, policy)


@pytest.mark.parametrize("works", [False, True])
def test_names_and_help_follow_the_conventions(page_agent, works):
    subject, registry = page_agent
    if works:
        at_work(subject)
    found = families(registry)
    assert len(found) > 15
    for name, family in found.items():
        assert re.fullmatch(r"koordlet(_[a-z]+)+", name), name
        assert family.documentation.endswith("."), name
        assert not re.search(rf"_({NOT_BASE_UNITS}|{TYPE_WORDS})(_|$)", name), name
        for sample in family.samples:
            assert all(re.fullmatch(r"[a-z]+(_[a-z]+)*|le", label) for label in sample.labels), sample
            assert not sample.name.endswith("_created")
            assert (family.type == "counter") == sample.name.endswith("_total"), sample
        if family.type not in ("histogram", "summary"):
            assert not re.search(r"_(count|sum|bucket)$", name), name
        if "timestamp" in name:
            assert name.endswith("_timestamp_seconds"), name


def test_counters_are_zero_at_the_start(page_agent):
    found = samples(page_agent[1])
    for key in (
        ("koordlet_ticks_total",),
        ("koordlet_trainings_total",),
        ("koordlet_unusable_values_total",),
        ("koordlet_refused_samples_total",),
        ("koordlet_early_reports_total",),
        ("koordlet_tick_duration_seconds_count",),
        ("koordlet_tick_lateness_seconds_count",),
        ("koordlet_suppression_failures_total",),
        ("koordlet_open_files",),
        *(("koordlet_checkpoint_writes_total", outcome) for outcome in ("written", "failed")),
        *(
            ("koordlet_reports_total", outcome)
            for outcome in ("written", "no_node_metric", "conflict", "refused", "unreachable")
        ),
        *(
            ("koordlet_reports_without_prediction_total", reason)
            for reason in (
                "pods_unknown", "allocatable_unknown", "no_current_sample", "unusable_policy", "unusable_answer",
            )
        ),
        *(("koordlet_watch_synced", watch) for watch in ("pods", "node", "node_metric")),
    ):  # fmt: skip
        assert found[key] == 0.0, key


def test_a_report_without_prediction_is_counted_by_reason(page_agent):
    subject, registry = page_agent
    at_work(subject)
    assert samples(registry)["koordlet_reports_without_prediction_total", "no_current_sample"] == 1.0
    assert samples(registry)["koordlet_prod_pods", "cold"] == 0.0


@pytest.mark.parametrize(("has_right", "ratio"), [(True, 0.65), (False, 0.0)])
def test_suppression_that_is_off_is_zero(tmp_path, has_right, ratio):
    registry = prometheus_client.CollectorRegistry()
    settings = KoordletSettings(node_name="n1", state_dir="", enable_suppression=has_right)
    PlainHost(tmp_path).set_node(1000, 1 << 30)
    subject = Agent(settings, node_observer.NodeObserver(tmp_path, 64), registry)
    found = samples(registry)
    assert found["koordlet_suppression_threshold_ratio",] == found["koordlet_suppression_lowered_pods",] == 0.0
    view = subject.view
    view.pods.keep_only(())
    view.watches["node_metric"].synced, view.resource_version = True, "1"
    view.spec = node_metric.NodeMetricSpec.model_validate(
        {"midColocationPolicy": {"enable": True, "midSuppressThresholdPercent": 65}}
    )
    assert samples(registry)["koordlet_suppression_threshold_ratio",] == ratio
    subject.observer.collector.close()


@pytest.fixture
def node(tmp_path):
    made = OneNode(tmp_path, StaticCluster(bound_pod("a"), bound_pod("b")))
    made.node_cores, made.pod_cores = 1.0, {"a": 0.25, "b": 0.5}
    yield made
    made.observer.collector.close()


@pytest.fixture
def value(node):
    registry = CollectorRegistry()
    made = metrics.AgentCollector(
        node.reports, metrics.Counts(), {}, Checkpointer("", "n1", node.observer.server),
        cluster=node.cluster,
    )  # fmt: skip
    registry.register(made)
    return lambda name, **labels: registry.get_sample_value(name, labels)


@pytest.mark.parametrize(("cold_start_seconds", "history", "other"), [(3600, "cold", "warm"), (0, "warm", "cold")])
def test_the_predicted_peak_and_its_pods_are_those_of_the_last_prediction(
    node, value, cold_start_seconds, history, other
):
    policy = node.policy.model_copy(update={"predictor": "percentile", "cold_start_period_seconds": cold_start_seconds})
    assert value("koordlet_prod_pods", history=history) is None
    node.run(30)
    node.observer.train(node.now, spec_in_force.predict_parameters(policy))
    node.reports.predict(node.now, node.cluster, policy)
    assert value("koordlet_prod_pods", history=history) == 2
    assert value("koordlet_prod_pods", history=other) == 0
    peaks = node.reports.prediction.prod
    assert value("koordlet_prod_peak_cpu_cores", predictor="percentile") == peaks[Resource.CPU].peak
    assert value("koordlet_prod_peak_memory_bytes", predictor="percentile") == peaks[Resource.MEMORY].peak
    assert (peaks[Resource.CPU].peak >= 2.0) == (history == "cold")  # cold pods count with their requests
    assert value("koordlet_refused_pods") == 0


@pytest.fixture
def host(tmp_path, agent):
    return PlainHost(tmp_path)


def test_usage_and_sources_have_values_after_two_ticks(agent, host, registry):
    cluster = NoCluster(agent.observer.machine_capacity())
    for second in range(2):
        agent.observer.observe(1e9 + second, cluster)
    node = agent.observer.newest[NODE]
    assert registry.get_sample_value("koordlet_usage_memory_bytes", {"kind": "node"}) == node.memory_bytes > 0
    assert registry.get_sample_value("koordlet_usage_cpu_cores", {"kind": "node"}) == node.cpu_cores
    (host.host_root.proc_root / "meminfo").unlink()
    agent.observer.observe(1e9 + 2, cluster)
    source = {"source": "node usage"}
    assert registry.get_sample_value("koordlet_source_reads_total", source) == 3
    assert registry.get_sample_value("koordlet_source_failures_total", source) == 1
    assert registry.get_sample_value("koordlet_source_seconds_total", source) > 0
    assert registry.get_sample_value("koordlet_source_supported", source) == 1


def test_the_mid_resources_of_a_namespace_are_metrics_of_the_agent(agent, registry):
    agent.view.pods.put(bound_pod("a", mid_cpu_request_millis=1500))
    agent.view.pods.keep_only([("shop", "a")])
    agent._tick()
    found = {
        (sample.name, sample.value)
        for metric in registry.collect()
        for sample in metric.samples
        if sample.labels.get("namespace") == "shop" and sample.name.endswith("requested_cpu_cores")
    }
    assert {value for _name, value in found} == {1.5}


def test_the_time_that_tasks_of_the_machine_waited_is_a_counter(agent, registry, tmp_path):
    folder = tmp_path / "proc" / "pressure"
    folder.mkdir()
    for seconds, resource in enumerate(("cpu", "memory", "io"), start=1):
        (folder / resource).write_text(f"some avg10=0.00 avg60=0.00 avg300=0.00 total={seconds}000000\n")
    agent._tick()
    for seconds, resource in enumerate(("cpu", "memory", "io"), start=1):
        labels = {"resource": resource, "kind": "some"}
        assert registry.get_sample_value("koordlet_node_stalled_seconds_total", labels) == seconds


def agent_page(watches=None, counts=None, cluster=None):
    observer = NodeObserver(Path("/nonexistent"), 100)
    made = metrics.AgentCollector(
        ReportBuilder(observer), counts or metrics.Counts(), watches or {},
        Checkpointer("", "n1", observer.server), cluster=cluster or StaticCluster(),
    )  # fmt: skip
    return Page(made)


def test_each_watch_has_its_state_events_reconnects_and_unreadable_objects():
    watches = {"pods": WatchState(synced=True, reconnects=2, events=5), "node": WatchState(reconnects=1)}
    cluster = StaticCluster()
    cluster.unreadable = {("pods", "shop/a"): "no uid", ("pods", "shop/b"): "no uid"}
    page = agent_page(watches, cluster=cluster)
    found = {
        name: page.values(name)
        for name in ("watch_synced", "watch_events_total", "watch_reconnects_total", "unreadable_objects")
    }
    assert found == {
        "watch_synced": {("pods",): 1.0, ("node",): 0.0},
        "watch_events_total": {("pods",): 5.0, ("node",): 0.0},
        "watch_reconnects_total": {("pods",): 2.0, ("node",): 1.0},
        "unreadable_objects": {("pods",): 2.0, ("node",): 0.0},
    }


def test_patches_of_the_suppression_are_counted_by_direction_and_outcome():
    patches = {(direction, outcome): 0 for direction in ("down", "up") for outcome in Patched}
    patches["down", Patched.NOT_PERMITTED] = 4
    page = Page(
        SuppressionCollector(
            types.SimpleNamespace(
                sender=types.SimpleNamespace(patches=patches),
                failures=0,
                lowered_pods=0,
                threshold_percent=lambda: None,
                planner=types.SimpleNamespace(allowed_millis=None),
            )
        )
    )
    found = page.values("suppression_patches_total")
    assert found["down", Patched.NOT_PERMITTED] == 4.0
    assert found.keys() == {(direction, outcome) for direction in ("down", "up") for outcome in Patched}
    assert sum(found.values()) == 4.0
