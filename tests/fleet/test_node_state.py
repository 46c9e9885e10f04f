"""State of one node: an unknown value is None, with reports of koordlet and of Koordinator's agent."""

import datetime as dt

import msgspec
import pytest

from api_types.kubernetes import times
from fleet import node_state, wire
from fleet.node_state import UNKNOWN, Amounts
from manager.cache import store
from tests import factories
from tests.fleet import cluster

NOW = times.parse_rfc3339(cluster.NOW)
GIB = 2**30


def state(node=None, metric=None, now=NOW):
    decoded = store.with_mid_status(msgspec.convert(node, type=store.StoredNode)) if node else None
    report = msgspec.convert(metric, type=wire.WireNodeMetric) if metric else None
    return node_state.combine("worker-1", decoded, report, now)


def test_usage_requests_peak_and_mid_side_by_side():
    seen = state(cluster.node(annotations=cluster.mid_status()), cluster.metric())
    assert seen.allocatable == Amounts(16_000, 64 * GIB)
    assert seen.used == Amounts(7_680, 26 * GIB)
    assert (seen.prod_requests.cpu, seen.prod_peak.cpu, seen.mid.cpu, seen.mid_requests.cpu) == (
        14_750,
        5_550,
        9_423,
        7_200,
    )
    assert (seen.reason, seen.sample_age_seconds, seen.cold_pods) == ("Calculated", 10.0, 2)
    assert seen.used_percent("cpu") == 48


def test_a_node_without_a_report_has_no_usage_instead_of_0():
    seen = state(cluster.node(mid_cpu=None))
    assert (seen.used, seen.prod_peak, seen.mid, seen.sample_age_seconds) == (UNKNOWN, UNKNOWN, UNKNOWN, None)
    assert not seen.has_report
    assert seen.reason == "NodeMetricMissing"


def test_a_report_of_koordinators_agent_shows_the_requests_that_the_manager_counted():
    upstream = factories.upstream_node_metric()
    seen = state(cluster.node(annotations=cluster.mid_status("CalculatedFromReclaimable")), upstream)
    assert seen.used.cpu == 1_450
    assert (seen.prod_used, seen.prod_requests.cpu, seen.mid_requests.cpu) == (UNKNOWN, 14_750, 7_200)
    assert seen.prod_requests.memory is None


def test_an_old_report_has_the_reason_of_a_withdrawal():
    seen = state(cluster.node(annotations=cluster.mid_status()), cluster.metric(), NOW + dt.timedelta(minutes=21))
    assert (seen.reason, seen.status) == ("SampleTooOld", "False")


@pytest.mark.parametrize("value", ["-1", "1e30", "9999999999999999999999"])
def test_an_impossible_value_is_not_known_and_refused(value):
    bad = {"resource": {"resources": {"cpu": value, "memory": "1"}}}
    seen = state(cluster.node(annotations=cluster.mid_status()), cluster.metric(prodPeakMetric=bad))
    assert seen.prod_peak == UNKNOWN
    assert seen.reason == "ReportRefused"


def test_only_conditions_that_are_a_fault_are_kept():
    conditions = [
        {"type": "Ready", "status": "True"},
        {"type": "WarmingUp", "status": "True", "reason": "ColdPods"},
        {"type": "SourceDegraded", "status": "True", "reason": "NoData", "message": "/proc/stat"},
        {"type": "PredictionDegraded", "status": "False"},
        {"type": "MidPodsWithoutLimits", "status": "True", "reason": "NoLimit", "message": "shop/etl"},
    ]
    assert [each.type for each in state(cluster.node(), cluster.metric(conditions=conditions)).conditions] == [
        "SourceDegraded",
        "MidPodsWithoutLimits",
    ]


def test_a_report_without_its_node_is_shown_without_shares():
    seen = state(None, cluster.metric())
    assert (seen.used.cpu, seen.used_percent("cpu"), seen.has_node, seen.reason) == (7_680, None, False, "")


def test_a_status_annotation_of_another_author_is_no_status():
    seen = state(cluster.node(annotations={"koordinator.sh/mid-resource-status": "{" * 20_000}), cluster.metric())
    assert seen.prod_requests.cpu == 14_750
    assert seen.reason == "Calculated"


@pytest.mark.parametrize(
    ("spec", "seconds"),
    [
        ({"metricCollectPolicy": {"reportIntervalSeconds": 30}}, 30.0),
        ({"metricCollectPolicy": {"reportIntervalSeconds": "30"}}, None),
        ({"metricCollectPolicy": {}}, None),
        ({"metricCollectPolicy": 30}, None),
        ({}, None),
        (None, None),
    ],
)
def test_the_interval_of_reports_is_that_of_the_spec(spec, seconds):
    metric = cluster.metric()
    metric["spec"] = spec
    assert state(cluster.node(), metric).report_interval_seconds == seconds


@pytest.mark.parametrize(
    ("written", "status", "reason", "shown"),
    [
        ("CalculatedFromReclaimable", "True", "CalculatedFromReclaimable", "True"),
        ("SampleTooOld", "False", "Calculated", "True"),  # the report is newer than the last write
    ],
)
def test_a_calculated_reason_is_that_of_the_last_write_unless_it_was_a_withdrawal(written, status, reason, shown):
    seen = state(cluster.node(annotations=cluster.mid_status(written, status)), cluster.metric())
    assert (seen.reason, seen.status) == (reason, shown)
