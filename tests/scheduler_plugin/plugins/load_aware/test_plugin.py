"""Worked examples of LoadAware's filter and score."""

import json

import numpy as np
import pytest

from scheduler_plugin.plugins.load_aware import plugin as load_aware
from tests.scheduler_plugin import factories
from tests.scheduler_plugin.factories import NOW


def ints(*values):
    return np.array(values, dtype=np.int64)


@pytest.mark.parametrize(
    ("used", "total", "percent"), [(145, 1000, 14), (155, 1000, 16), (655, 1000, 66), (65499, 100000, 65)]
)
def test_percentages_round_in_upstreams_order_of_float_operations(used, total, percent):
    assert load_aware.usage_percent(ints(used), ints(total)) == [percent]


def test_percentages_of_negative_usage_round_away_from_zero():
    assert load_aware.usage_percent(ints(-5, -25), ints(1000, 1000)).tolist() == [-1, -3]


def decide(pod, *, args=None, usage, peak=None, now=NOW, **node):
    parts = factories.parts(args)
    parts.cluster.node_changed(factories.node("n1", **{"cpu": "96", "memory": "512Gi", **node}))
    status = {"prediction": {"node": {"peak": peak}}} if peak else None
    parts.cluster.metric_changed(factories.metric("n1", usage=usage, status=status))
    response = json.loads(parts.extender.filter(factories.request(pod, ["n1"]), now))
    score = json.loads(parts.extender.prioritize(factories.request(pod, ["n1"]), now))[0]["Score"]
    return (response.get("FailedAndUnresolvableNodes") or {}).get("n1"), score


BEST_EFFORT = factories.pod_document(priority=None)
SIXTEEN_CORES = factories.pod_document(requests={"cpu": "16", "memory": "32Gi"}, limits={"cpu": "16", "memory": "32Gi"})


def test_a_node_below_its_limits_passes():
    assert decide(BEST_EFFORT, usage={"cpu": "60", "memory": "256Gi"})[0] is None


def test_a_hot_node_is_rejected_and_the_reason_names_the_resource():
    assert decide(BEST_EFFORT, usage={"cpu": "70", "memory": "256Gi"})[0] == "node(s) cpu usage exceed threshold"


def test_an_idle_node_scores_by_the_share_that_the_pod_leaves_free():
    assert decide(SIXTEEN_CORES, usage={})[1] == 90


def test_with_the_dominant_weight_alone_the_scarcest_resource_scores():
    assert decide(SIXTEEN_CORES, args={"dominantResourceWeight": 10}, usage={})[1] == 85


def test_a_used_node_scores_lower():
    assert decide(SIXTEEN_CORES, usage={"cpu": "32", "memory": "10Gi"})[1] == 72


def test_a_twin_that_was_just_assigned_lowers_the_score():
    parts = factories.parts()
    parts.cluster.node_changed(factories.node("n1", cpu="96", memory="512Gi"))
    parts.cluster.metric_changed(factories.metric("n1", usage={"cpu": "32", "memory": "10Gi"}))
    twin = factories.pod("twin", requests={"cpu": "16", "memory": "32Gi"}, limits={"cpu": "16", "memory": "32Gi"})
    parts.cluster.assume_pod(twin, "n1", NOW)
    response = parts.extender.prioritize(factories.request(SIXTEEN_CORES, ["n1"]), NOW)
    assert json.loads(response) == [{"Host": "n1", "Score": 63}]


def test_an_expired_report_rejects_and_scores_zero():
    usage = {"cpu": "1", "memory": "1Gi"}
    assert decide(BEST_EFFORT, usage=usage, now=NOW + 179)[0] is None
    assert decide(BEST_EFFORT, usage=usage, now=NOW + 180) == ("node(s) nodeMetric expired", 0)


def test_an_expired_report_passes_if_the_arguments_allow_it():
    args = {"enableScheduleWhenNodeMetricsExpired": True}
    assert decide(BEST_EFFORT, args=args, usage={"cpu": "90", "memory": "1Gi"}, now=NOW + 180) == (None, 0)


def test_a_cached_result_expires_with_its_report():
    parts = factories.parts()
    parts.cluster.node_changed(factories.node("n1"))
    parts.cluster.metric_changed(factories.metric("n1", usage={"cpu": "1", "memory": "1Gi"}))
    body = factories.request(BEST_EFFORT, ["n1"])
    assert json.loads(parts.extender.filter(body, NOW))["NodeNames"] == ["n1"]
    assert json.loads(parts.extender.filter(body, NOW + 200))["NodeNames"] == []


def test_the_nodes_own_limits_replace_those_of_the_arguments():
    own = {"scheduling.koordinator.sh/usage-thresholds": '{"usageThresholds": {"cpu": 80}}'}
    assert decide(BEST_EFFORT, usage={"cpu": "70", "memory": "1Gi"}, annotations=own)[0] is None


def test_limits_in_an_annotation_that_is_too_long_are_not_read():
    own = {"scheduling.koordinator.sh/usage-thresholds": '{"usageThresholds": {"cpu": 80}}'.ljust(2**15)}
    assert decide(BEST_EFFORT, usage={"cpu": "70", "memory": "1Gi"}, annotations=own)[0] is not None


def test_usage_is_compared_with_the_raw_allocatable():
    amplified = {"node.koordinator.sh/raw-allocatable": '{"cpu": 96}'}
    usage = {"cpu": "70", "memory": "1Gi"}
    assert decide(BEST_EFFORT, usage=usage, cpu="192")[0] is None
    assert decide(BEST_EFFORT, usage=usage, cpu="192", annotations=amplified)[0] == "node(s) cpu usage exceed threshold"


@pytest.mark.parametrize("owner", ["DaemonSet", "Node"])
def test_daemon_and_static_pods_pass_on_hot_and_stale_nodes(owner):
    pinned = factories.pod_document(priority=None, owner_kind=owner)
    usage = {"cpu": "95", "memory": "1Gi"}
    assert decide(pinned, usage=usage)[0] is None
    assert decide(pinned, usage=usage, now=NOW + 180)[0] is None
    assert decide(factories.pod_document(priority=None, owner_kind="ReplicaSet"), usage=usage)[0] is not None


HOT, COOL = {"cpu": "90", "memory": "1Gi"}, {"cpu": "1", "memory": "1Gi"}
CPU_REASON, STALE_REASON = "node(s) cpu usage exceed threshold", "node(s) nodeMetric expired"


@pytest.mark.parametrize(
    ("on_stale", "when_cool", "when_hot"),
    [("reject", STALE_REASON, STALE_REASON), ("pass", None, None), ("use", None, CPU_REASON)],
)
def test_a_stale_node_is_rejected_passed_or_checked_by_its_last_report_and_scores_zero(on_stale, when_cool, when_hot):
    for usage, reason in ((COOL, when_cool), (HOT, when_hot)):
        assert decide(BEST_EFFORT, args={"onStale": on_stale}, usage=usage, now=NOW + 180) == (reason, 0)


def test_soft_mode_rejects_nothing_and_orders_the_nodes_above_their_limits_by_their_excess():
    soft = {"mode": "soft"}
    used = [{"cpu": str(cores), "memory": "1Gi"} for cores in (1, 60, 66, 80, 95)]
    decided = [decide(BEST_EFFORT, args=soft, usage=usage) for usage in used]
    assert [reason for reason, _score in decided] == [None] * 5
    scores = [score for _reason, score in decided]
    assert scores == sorted(scores, reverse=True)
    assert len(set(scores)) == 5
    assert scores[1] >= 20 > scores[2]
    assert scores[-1] > 0
    assert decide(BEST_EFFORT, args=soft, usage=COOL, now=NOW + 180) == (None, 0)


def test_expired_nodes_pass_while_this_process_does_not_see_the_reports():
    parts, late = factories.parts(), NOW + 1000
    parts.cluster.node_changed(factories.node("n1"))
    parts.cluster.metric_changed(factories.metric("n1", usage=COOL))

    def passing():
        return json.loads(parts.extender.filter(factories.request(BEST_EFFORT, ["n1"]), late))["NodeNames"]

    assert passing() == []
    assert "1 of 1 nodes expired" in parts.check_blindness(None, late)
    assert passing() == ["n1"]
    assert parts.check_blindness(None, NOW) == ""
    assert "silent for 91 s" in parts.check_blindness(91.0, NOW)


@pytest.mark.parametrize(
    ("source", "reported", "peak", "used"),
    [
        ("reported", COOL, HOT, COOL),
        ("predicted", COOL, HOT, HOT),
        ("predicted", HOT, COOL, COOL),
        ("max", COOL, HOT, HOT),
        ("max", HOT, COOL, HOT),
        ("predicted", HOT, None, HOT),
        ("max", COOL, None, COOL),
        ("max", {"cpu": "50", "memory": "1Gi"}, {"cpu": "1", "memory": "300Gi"}, {"cpu": "50", "memory": "300Gi"}),
    ],
)
def test_a_node_is_checked_by_the_configured_usage_source(source, reported, peak, used):
    assert decide(BEST_EFFORT, args={"usageSource": source}, usage=reported, peak=peak) == decide(
        BEST_EFFORT, usage=used
    )


def test_the_usage_of_the_prod_pods_is_as_reported_with_any_source():
    args = {"usageSource": "predicted", "prodUsageThresholds": {"cpu": 50}, "scoreAccordingProdUsage": True}
    assert decide(SIXTEEN_CORES, args=args, usage=COOL, peak=HOT) == decide(SIXTEEN_CORES, usage={})


def test_the_next_call_uses_every_change():
    parts = factories.parts()
    for name in ("n1", "n2"):
        parts.cluster.node_changed(factories.node(name))
    seen = []
    for cpu in ("1", "90", "2", "91", "3"):
        parts.cluster.metric_changed(factories.metric("n1", usage={"cpu": cpu, "memory": "1Gi"}))
        response = json.loads(parts.extender.filter(factories.request(BEST_EFFORT, ["n1", "n2"]), NOW))
        seen.append(response["NodeNames"])
    assert seen == [["n1", "n2"], ["n2"], ["n1", "n2"], ["n2"], ["n1", "n2"]]


def test_without_any_weight_every_node_scores_zero():
    used, allocatable = ints([1, 2, 3], [1, 2, 3]), ints([9, 9, 9], [9, 9, 9])
    assert load_aware.weighted_score(0, ints(0, 0), used, allocatable).tolist() == [0, 0, 0]
