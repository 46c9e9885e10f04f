"""The metrics page: names and help by the conventions of Prometheus, counters from 0 on, no unmeasured value."""

import re

import prometheus_client
import pytest
from prometheus_client import parser

from api_types.node_metric import types as node_metric
from koordlet import node_observer
from koordlet.agent import Agent
from koordlet.cluster import spec_in_force
from koordlet.cluster.interface import NoCluster
from koordlet.metrics import agent as metrics
from koordlet.settings import KoordletSettings
from tests.host_trees.plain_files import PlainHost

# The units and words that promtool's linter refuses in a name.
NOT_BASE_UNITS = (
    "milliseconds|minutes|hours|days|weeks|millicores|kelvin|kilobytes|megabytes|gigabytes|kib|mib|gib|percent|percents"
)
TYPE_WORDS = "gauge|counter|summary|histogram|map"


@pytest.fixture
def agent(tmp_path):
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


def at_work(agent):
    cluster = NoCluster(agent.observer.machine_capacity)
    policy = spec_in_force.predict_policy(None)
    agent.reports.predict(0.0, cluster, policy)
    for second in range(3):
        agent.observer.observe(1e9 + second, cluster)
    agent.reports.predict(1e9 + 2, cluster, policy)
    agent.observer.train(1e9 + 2, spec_in_force.predict_parameters(policy))
    agent.reports.predict(1e9 + 3, cluster, policy)


@pytest.mark.parametrize("works", [False, True])
def test_names_and_help_follow_the_conventions(agent, works):
    subject, registry = agent
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


def test_counters_are_zero_at_the_start(agent):
    found = samples(agent[1])
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


def test_unmeasured_metrics_have_no_value(agent):
    found = families(agent[1])
    for name in ("koordlet_sample_timestamp_seconds", "koordlet_checkpoint_timestamp_seconds"):
        assert name not in found
    for name in ("koordlet_usage_cpu_cores", "koordlet_prod_peak_cpu_cores"):
        assert found[name].samples == []


def test_a_report_without_prediction_is_counted_by_reason(agent):
    subject, registry = agent
    at_work(subject)
    assert samples(registry)["koordlet_reports_without_prediction_total", "no_current_sample"] == 1.0
    assert samples(registry)["koordlet_prod_pods", "cold"] == 0.0


def test_durations_are_counted_as_the_library_counts_them():
    registry, counted = prometheus_client.CollectorRegistry(), metrics.Durations()
    bounds = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0)
    library = prometheus_client.Histogram("koordlet_tick_duration_seconds", "Same.", buckets=bounds, registry=registry)
    for seconds in (0.0, 0.001, 0.0011, 0.05, 0.7, 1.0, 1.1, 60.0):
        library.observe(seconds)
        counted.add(seconds)
    (wanted,) = registry.collect()
    found = counted.metric("koordlet_tick_duration_seconds", "Same.")
    expected = {(one.name, *one.labels.values()): one.value for one in wanted.samples if "_created" not in one.name}
    assert {(one.name, *one.labels.values()): one.value for one in found.samples} == expected


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
