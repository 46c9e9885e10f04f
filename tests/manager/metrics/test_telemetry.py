"""Metrics page: names and help by convention, counters from 0, bounded labels, no stale series."""

import datetime as dt
import re

import prometheus_client
import pytest
from prometheus_client import parser

from api_types.node_metric.mid_resource import Terms
from component_base.version import VERSION
from manager.cache.work_queue import Lane
from manager.metrics.collectors import OTHER, AttemptResult, EvictedByNamespace
from manager.metrics.telemetry import KINDS, STATEMENT_RESULTS, TERMS, WATCHED, Telemetry
from manager.mid_resource.eviction.shortage import Trigger
from manager.mid_resource.reasons import Reason
from manager.slo_config.evaluation import State
from tests.manager.conftest import MID

# The units and words that promtool's linter refuses in a name.
NOT_BASE_UNITS = (
    "milliseconds|minutes|hours|days|weeks|millicores|kelvin|kilobytes|megabytes|gigabytes|kib|mib|gib|percent|percents"
)
TYPE_WORDS = "gauge|counter|summary|histogram|map"
NOW = dt.datetime(2026, 11, 21, 12, tzinfo=dt.UTC)
LABELS = {
    "reason": {*Reason}, "state": {*State}, "kind": {*KINDS},
    "outcome": {"ok", "error", *AttemptResult, *STATEMENT_RESULTS}, "watch": {*WATCHED},
    "lane": {*Lane}, "term": {*TERMS}, "cause": {*Trigger}, "version": {VERSION}, "namespace": {OTHER},
}  # fmt: skip


@pytest.fixture
def telemetry():
    prometheus_client.disable_created_metrics()
    made = Telemetry(prometheus_client.CollectorRegistry(), reasons=[*Reason], states=[*State])
    for lane in Lane:
        made.queue_depth.labels(lane).set_function(lambda: 0)
    made.export_watch_ages()
    yield made
    prometheus_client.enable_created_metrics()


def families(telemetry):
    text = prometheus_client.generate_latest(telemetry.registry).decode()
    return {family.name: family for family in parser.text_string_to_metric_families(text)}


def samples(telemetry):
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in families(telemetry).values()
        for sample in family.samples
    }


def at_work(telemetry, name="n1"):
    telemetry.show_node(name, Reason.CALCULATED, {MID[0]: 1500, MID[1]: 1 << 30}, is_clock_wrong=True)
    line = Terms(published=1500, reclaimable=1500, unused=2000, calculated=1500, allocated_mid=0, floor=0)
    telemetry.mid.show(name, {MID[0]: 1500, MID[1]: None}, {MID[0]: line})
    telemetry.show_sample(name, NOW - dt.timedelta(seconds=40), NOW)
    with telemetry.write("node_status"):
        pass


@pytest.mark.parametrize("works", [False, True])
def test_names_and_help_follow_the_conventions_and_labels_are_bounded(telemetry, works):
    if works:
        at_work(telemetry)
    found = families(telemetry)
    assert len(found) > 15
    for name, family in found.items():
        assert re.fullmatch(r"koord_manager(_[a-z]+)+", name), name
        assert family.documentation.endswith("."), name
        assert not re.search(rf"_({NOT_BASE_UNITS}|{TYPE_WORDS})(_|$)", name), name
        for sample in family.samples:
            for label, value in sample.labels.items():
                assert label in ("node", "le") or value in LABELS[label], sample
            assert (family.type == "counter") == sample.name.endswith("_total"), sample
        if family.type not in ("histogram", "summary"):
            assert not re.search(r"_(count|sum|bucket)$", name), name
        if "timestamp" in name:
            assert name.endswith("_timestamp_seconds"), name


def test_counters_start_at_zero(telemetry):
    found = samples(telemetry)
    for key in (
        ("koord_manager_kubernetes_events_lost_total",),
        ("koord_manager_sample_age_seconds_count",),
        *(("koord_manager_writes_total", kind, result) for kind in KINDS for result in ("ok", "error")),
        *(("koord_manager_write_duration_seconds_count", kind) for kind in KINDS),
        *(("koord_manager_nodes", reason.value) for reason in Reason),
        *(("koord_manager_config_state", state.value) for state in State),
        *(("koord_manager_queue_depth", lane.value) for lane in Lane),
        *(("koord_manager_watch_events_total", resource) for resource in WATCHED),
    ):  # fmt: skip
        assert found[key] == 0.0, key


def test_the_series_of_a_node_are_removed_with_it(telemetry):
    before = samples(telemetry).keys()
    at_work(telemetry)
    found = samples(telemetry)
    assert found["koord_manager_node_mid_cpu_cores", "n1"] == 1.5
    assert found["koord_manager_node_sample_timestamp_seconds", "n1"] == NOW.timestamp() - 40
    telemetry.forget_node("n1")
    assert samples(telemetry).keys() == before


def test_the_age_of_the_configuration_follows_what_is_put_in_force(telemetry):
    assert str(samples(telemetry)["koord_manager_config_timestamp_seconds",]) == "nan"
    telemetry.show_config_in_force(NOW, 300)
    found = samples(telemetry)
    assert found["koord_manager_config_timestamp_seconds",] == NOW.timestamp()
    assert found["koord_manager_config_generation",] == 1.0
    assert found["koord_manager_report_interval_seconds",] == 300.0


def evicted(collector):
    (family,) = collector.collect()
    return {sample.labels["namespace"]: sample.value for sample in family.samples}


def test_evicted_pods_of_a_namespace_count_from_zero():
    collector = EvictedByNamespace()
    assert evicted(collector) == {OTHER: 0}
    collector.add("team-a", 0)
    assert evicted(collector) == {"team-a": 0, OTHER: 0}
    collector.add("team-a", 1)
    assert evicted(collector) == {"team-a": 1, OTHER: 0}


def test_tenants_cannot_make_more_series_than_the_limit_and_no_eviction_is_lost():
    collector = EvictedByNamespace(most=3)
    for number in range(50):
        collector.add("steady", 1)
        collector.add(f"made-{number}", 1)
    assert evicted(collector) == {"made-48": 1, "steady": 50, "made-49": 1, OTHER: 48}
