"""Usage that LoadAwareScheduling compares and scores: of all pods or of Prod, of a statistic, or predicted."""

import json

import pytest

from tests.scheduler_plugin import factories
from tests.scheduler_plugin.factories import NOW, pod_document, reported, request

HOT = "node(s) cpu usage exceed threshold"
HOT_BY_STATISTIC = "node(s) cpu aggregated usage exceed threshold"
EXPIRED = "node(s) nodeMetric expired"
PROD, OTHER = 9500, None


def windows(**by_duration):
    """Return aggregated usages of a node: the p95 of CPU by duration."""
    return [
        {"duration": duration.replace("_", ""), "usage": {"p95": {"resources": {"cpu": cpu, "memory": "1Gi"}}}}
        for duration, cpu in by_duration.items()
    ]


def decide(args, *, priority=OTHER, cpu="1", now=NOW, annotations=None, peak=None, **metric):
    """Return the reason, None if it passes, and the score of a node of 100 cores; the pod is estimated at 0.25."""
    parts = factories.parts(args)
    parts.cluster.node_changed(factories.node("n1", annotations=annotations))
    status = {"prediction": {"node": {"peak": peak}}} if peak else None
    usage = None if cpu is None else {"cpu": cpu, "memory": "1Gi"}
    parts.cluster.metric_changed(factories.metric("n1", usage=usage, status=status, **metric))
    body = request(pod_document("new", priority=priority), ["n1"])
    refused = json.loads(parts.extender.filter(body, now)).get("FailedAndUnresolvableNodes") or {}
    (scored,) = json.loads(parts.extender.prioritize(body, now))
    return refused.get("n1"), scored["Score"]


PROD_LIMIT = {"prodUsageThresholds": {"cpu": 20}, "usageThresholds": {"cpu": 65}}
OF_PROD = {"pods_metric": [reported("web", "30", "1Gi")]}


@pytest.mark.parametrize(
    ("priority", "cpu", "prod", "reason"),
    [
        (PROD, "40", "30", HOT),
        (OTHER, "40", "30", None),
        (OTHER, "70", "30", HOT),
        (PROD, "70", "10", None),
    ],
)
def test_prod_pods_are_compared_with_the_usage_of_the_prod_pods_alone(priority, cpu, prod, reason):
    parts = factories.parts(PROD_LIMIT)
    parts.cluster.node_changed(factories.node("n1"))
    web = factories.pod("web", node="n1", scheduled=-1000, phase="Running")
    parts.cluster.pod_changed(web, NOW)
    usage = {"cpu": cpu, "memory": "1Gi"}
    parts.cluster.metric_changed(factories.metric("n1", usage=usage, pods_metric=[reported("web", prod, "1Gi")]))
    body = request(pod_document("new", priority=priority), ["n1"])
    refused = json.loads(parts.extender.filter(body, NOW)).get("FailedAndUnresolvableNodes") or {}
    assert refused.get("n1") == reason


AGGREGATED = {"usageThresholds": {"cpu": 50}, "usageAggregationType": "p95", "usageAggregatedDuration": "5m"}


@pytest.mark.parametrize(
    ("cpu", "given", "reason"),
    [
        ("10", windows(_5m="60"), HOT_BY_STATISTIC),
        ("60", windows(_5m="10"), None),
        ("60", windows(_10m="10"), HOT_BY_STATISTIC),
        ("10", windows(_10m="60"), None),
    ],
)
def test_a_statistic_is_compared_in_place_of_the_newest_usage_where_it_is_reported(cpu, given, reason):
    assert decide({"aggregated": AGGREGATED}, cpu=cpu, aggregated=given)[0] == reason


def test_a_statistic_is_scored_where_one_is_configured():
    scored = {"scoreAggregationType": "p95", "scoreAggregatedDuration": "5m"}
    low = decide({"aggregated": scored}, cpu="10", aggregated=windows(_5m="60"))[1]
    high = decide({"aggregated": scored}, cpu="60", aggregated=windows(_5m="10"))[1]
    # 39.75 and 89.75 of 100 cores, 98.8 of 100 GiB are free: (39 + 98) // 2 and (89 + 98) // 2
    assert (low, high) == (68, 93)


@pytest.mark.parametrize(
    ("source", "cpu", "peak", "reason"),
    [
        ("reported", "60", "70", None),
        ("reported", "70", "60", HOT),
        ("predicted", "60", "70", HOT),
        ("predicted", "70", "60", None),
        ("max", "60", "70", HOT),
        ("max", "70", "60", HOT),
        ("max", "60", "60", None),
        ("predicted", "70", None, HOT),
    ],
)
def test_the_source_of_usage_decides_which_value_is_compared(source, cpu, peak, reason):
    given = None if peak is None else {"cpu": peak, "memory": "1Gi"}
    assert decide({"usageSource": source}, cpu=cpu, peak=given)[0] == reason


@pytest.mark.parametrize(
    ("args", "age", "reason"),
    [
        ({}, 179, None),
        ({}, 180, EXPIRED),
        ({"nodeMetricExpirationSeconds": 60}, 60, EXPIRED),
        ({"nodeMetricExpirationSeconds": 60}, 59, None),
        ({"onStale": "pass"}, 1000, None),
        ({"onStale": "use"}, 1000, None),
        ({"onStale": "reject"}, 1000, EXPIRED),
        ({"mode": "soft"}, 1000, None),
    ],
)
def test_a_report_is_too_old_from_its_expiration_on(args, age, reason):
    found, score = decide(args, now=NOW + age)
    assert found == reason
    assert (score > 0) is (age < args.get("nodeMetricExpirationSeconds", 180))


@pytest.mark.parametrize(("on_stale", "reason"), [("pass", None), ("use", HOT), ("reject", EXPIRED)])
def test_only_use_compares_a_stale_report(on_stale, reason):
    assert decide({"onStale": on_stale}, cpu="90", now=NOW + 1000)[0] == reason


def test_a_stale_report_of_a_node_without_limits_does_not_matter():
    args = {"usageThresholds": {"cpu": 0, "memory": 0}}
    assert decide(args, cpu="99", now=NOW + 1000) == (None, 0)


def test_a_report_without_usage_rejects_nothing_and_scores_nothing():
    assert decide({}, cpu=None) == (None, 0)


@pytest.mark.parametrize(
    ("cores", "limit", "reason"), [("64", 65, None), ("65.2", 65, None), ("65.3", 65, HOT), ("66", 66, None)]
)
def test_a_usage_that_rounds_to_the_limit_passes(cores, limit, reason):
    """The pod adds a quarter of a core to 100 cores: 65.2 + 0.25 rounds to 65, 65.3 + 0.25 to 66."""
    assert decide({"usageThresholds": {"cpu": limit}}, cpu=cores)[0] == reason


def test_the_annotation_of_a_node_replaces_the_limits_and_a_malformed_one_does_not():
    key = "scheduling.koordinator.sh/usage-thresholds"
    assert decide({}, cpu="40", annotations={key: '{"usageThresholds": {"cpu": 30}}'})[0] == HOT
    assert decide({}, cpu="70", annotations={key: '{"usageThresholds": {"cpu": 80}}'})[0] is None
    assert decide({}, cpu="70", annotations={key: '{"usageThresholds": {"cpu": "80"}}'})[0] == HOT
