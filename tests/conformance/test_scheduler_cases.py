"""Further cases of LoadAware and Trimaran in the form of the given ones; `expected` is the behaviour of the two."""

import json

import pytest

from api_types import names
from tests.conformance import runner

RUNNER = runner.Runner()
DIFFERENT = "different on purpose"
GIB = 1 << 30


def outcome_of(function, given, expected):
    return RUNNER.run({"id": "x-1", "function": function, "input": given, "expected": expected})


# LoadAware: filter and score

NODE = {"metadata": {"name": "n"}, "status": {"allocatable": {"cpu": "100", "memory": "100Gi"}}}
PASSES = {"code": "Success", "reason": None}
TOO_MUCH_CPU = {"code": "Unschedulable", "reason": "node(s) cpu usage exceed threshold"}
EXPIRED = {"code": "Unschedulable", "reason": "node(s) nodeMetric expired"}
NO_NODE = {"code": "Error"}
SCORE_0 = {"code": "Success", "score": 0}
P95 = {"usageThresholds": {"cpu": 50}, "usageAggregationType": "p95"}
P95_OF_10_MINUTES = {**P95, "usageAggregatedDuration": "10m0s"}


def report(cpu="60", update_time=0, **status):
    usage = {"nodeUsage": {"resources": {"cpu": cpu, "memory": "10Gi"}}}
    spec = {"metricCollectPolicy": {"reportIntervalSeconds": 60}}
    return {
        "metadata": {"name": "n"},
        "spec": spec,
        "status": {"updateTime": update_time, "nodeMetric": usage, **status},
    }


def annotated(**thresholds):
    annotations = {names.ANNOTATION_USAGE_THRESHOLDS: json.dumps(thresholds)}
    return {**NODE, "metadata": {"name": "n", "annotations": annotations}}


@pytest.mark.parametrize(
    ("function", "given", "expected", "outcome"),
    [
        ("filter", {"nodeMetric": report()}, PASSES, "passed"),
        ("filter", {"nodeMetric": report("70"), "pod": None, "assigned": None}, TOO_MUCH_CPU, "passed"),
        ("filter", {"nodeMetric": report("70"), "args": None, "rawArgs": None}, TOO_MUCH_CPU, "passed"),
        ("filter", {"nodeMetric": None}, PASSES, "passed"),
        ("filter", {"nodeMetric": report(update_time=-180)}, EXPIRED, "passed"),
        ("filter", {"nodeMetric": report(update_time=-179)}, PASSES, "passed"),
        ("filter", {"nodeMetric": report(), "node": None}, NO_NODE, DIFFERENT),
        ("filter", {"nodeMetric": report(), "node": annotated(aggregatedUsage=P95_OF_10_MINUTES)}, PASSES, DIFFERENT),
        ("filter", {"nodeMetric": report(), "node": annotated(usageThresholds={"cpu": 50})}, TOO_MUCH_CPU, "passed"),
        ("filter", {"nodeMetric": report("70"), "pod": {"spec": {"priority": 2 * 10**9}}}, TOO_MUCH_CPU, DIFFERENT),
        ("score", {"nodeMetric": report(update_time=-180), "pod": None}, SCORE_0, "passed"),
        ("score", {"nodeMetric": report()}, SCORE_0, "failed"),
        ("score", {"nodeMetric": report(), "node": None}, {**NO_NODE, "score": 0}, DIFFERENT),
    ],
)
def test_a_node_is_filtered_and_scored_as_by_load_aware(function, given, expected, outcome):
    result = outcome_of(function, {"node": NODE, "pod": {"spec": {"containers": []}}, **given}, expected)
    assert result.outcome == outcome, result.text


# LoadAware: assigned pods

FULL = {"estimatedScalingFactors": {"cpu": 100, "memory": 100}}
ESTIMATE = {"cpu": 4000, "memory": 8 * GIB}
READY = [{"type": "Ready", "status": "True", "lastTransitionTime": 0}]
FREE = {names.LABEL_PRIORITY_CLASS: "koord-free"}
DISK = "example.com/disk"


def pod(node_name="n", uid="a", conditions=(), **metadata):
    container = {"resources": {"requests": {"cpu": "4", "memory": "8Gi", DISK: "3"}}}
    return {
        "metadata": {"namespace": "default", "name": "a", "uid": uid, **metadata},
        "spec": {"nodeName": node_name, "priority": 9999, "containers": [container]},
        "status": {"phase": "Running", "conditions": list(conditions)},
    }


def added(own, at=0):
    return {"op": "pod_add", "at": at, "pod": own}


def updated(own, at=0):
    return {"op": "pod_update", "at": at, "old": None, "pod": own}


def reported(metric):
    return {"op": "node_metric_upsert", "nodeMetric": metric}


DELETED = {"op": "node_metric_delete", "node": "n"}
LOOKUP = {"op": "lookup", "node": "n"}


@pytest.mark.parametrize(
    ("events", "node", "outcome"),
    [
        ([added(pod(), at=-5), updated(pod(), at=7)], {"pods": {"a": {"timestamp": -5}}}, "passed"),
        ([added(pod()), updated(pod(conditions=READY), at=7)], {"pods": {"a": {"timestamp": 7}}}, "passed"),
        ([added(pod()), updated(pod(conditions=READY))], {"pods": {"a": {"conditions": 1}}}, "passed"),
        ([added(pod()), updated(pod(conditions=READY))], {"pods": {"a": {"conditions": 0}}}, "failed"),
        ([added(pod()), updated(pod(labels=FREE))], {"pods": {"a": {"labels": 1, "estimated": None}}}, DIFFERENT),
        ([added(pod()), updated(pod(node_name="m"))], None, "passed"),
        ([added(pod(uid="a")), added(pod(uid="b"))], {"pods": {"a": {}, "b": {}}}, DIFFERENT),
        ([added(None), reported(None), DELETED], None, "passed"),
        ([reported(report(update_time=5)), reported(report(update_time=None))], {"updateTime": 5}, "passed"),
        ([added(pod()), reported(report()), DELETED], {"hasNodeMetric": False, "updateTime": 0}, "passed"),
        ([added(pod()), reported(report()), DELETED], {"hasNodeMetric": True}, "failed"),
        ([added(pod()), reported(report())], {"nodeDelta": {**ESTIMATE, DISK: 3}}, "passed"),
    ],
)
def test_assigned_pods_count_as_in_load_aware(events, node, outcome):
    factors = {"estimatedScalingFactors": {**FULL["estimatedScalingFactors"], DISK: 100}}
    given = {"args": factors, "resources": ["cpu", "memory", DISK], "events": events}
    result = outcome_of("assign_cache", given, {"nodes": {"n": node}})
    assert result.outcome == outcome, result.text


@pytest.mark.parametrize(
    ("lookup", "expected", "outcome"),
    [
        ({}, {"found": True, "estimated": {"cpu": 64000, "memory": 18 * GIB}, "pods": ["default/a"]}, "passed"),
        ({"prod": True}, {"found": True, "estimated": ESTIMATE, "pods": ["default/a"]}, "passed"),
        ({"prod": True}, {"found": True, "estimated": {"cpu": 64000}}, "failed"),
        ({"aggregationType": "p95", "aggregatedDuration": "0s"}, {"estimated": {"cpu": 64000}}, "passed"),
        ({"aggregationType": "p95", "aggregatedDuration": "5m0s"}, {"estimated": ESTIMATE}, DIFFERENT),
        ({"node": "other"}, {"found": False, "notFound": True}, "passed"),
    ],
)
def test_a_node_is_looked_up_as_in_load_aware(lookup, expected, outcome):
    given = {"args": FULL, "events": [added(pod()), reported(report()), {**LOOKUP, **lookup}]}
    result = outcome_of("assign_cache", given, {"nodes": {}, "lookups": [expected]})
    assert result.outcome == outcome, result.text


def test_a_default_that_differs_from_koordinators_is_seen():
    expected = {"args": {"usageThresholds": {"cpu": 65, "memory": 95}}}
    assert outcome_of("args_default", {"args": {}}, expected).outcome == "failed"


# Trimaran: arguments

WATCHER = {"watcherAddress": "http://w:2020"}
PACKING = {"defaultRequests": {"cpu": "1000m"}, "defaultRequestsMultiplier": "1.5", "targetUtilization": 40}
HALF = {"cpu": 0.5, "memory": 0.5}
MODEL = {"n": {"k0": 1.0, "k1": 2.0, "k2": 3.0}}
REFUSED = {"error": "text of Trimaran"}


@pytest.mark.parametrize(
    ("function", "args", "expected", "outcome"),
    [
        ("targetloadpacking.New", {**WATCHER, "defaultRequestsMultiplier": "abc"}, REFUSED, "passed"),
        ("targetloadpacking.New", {**WATCHER, "targetUtilization": 120}, {"error": None}, DIFFERENT),
        ("targetloadpacking.New", None, REFUSED, DIFFERENT),
        ("targetloadpacking.New", {"metricProvider": {"type": "Bogus"}}, REFUSED, "passed"),
        ("targetloadpacking.New", WATCHER, REFUSED, "failed"),
        ("lowriskovercommitment.New", WATCHER, {"error": None, "effectiveRiskLimitWeights": HALF}, "passed"),
        ("lowriskovercommitment.New", WATCHER, {"error": None, "effectiveSmoothingWindowSize": 1}, "failed"),
        ("peaks.New", None, REFUSED, "passed"),
        (
            "peaks.New",
            {**WATCHER, "nodePowerModel": MODEL},
            {"error": None, "effectiveNodePowerModel": MODEL},
            "passed",
        ),
        ("peaks.New", {"watcherAddress": "", "nodePowerModel": MODEL}, REFUSED, DIFFERENT),
    ],
)
def test_arguments_are_accepted_as_by_trimaran(function, args, expected, outcome):
    result = outcome_of(function, {"args": args}, expected)
    assert result.outcome == outcome, result.text


@pytest.mark.parametrize(
    ("kind", "args", "expected", "outcome"),
    [
        ("TargetLoadPackingArgs", WATCHER, {**WATCHER, **PACKING}, "passed"),
        ("TargetLoadPackingArgs", {}, PACKING, DIFFERENT),
        ("TargetLoadPackingArgs", {**WATCHER, "targetUtilization": 0}, {**WATCHER, **PACKING}, DIFFERENT),
        (
            "LowRiskOverCommitmentArgs",
            {**WATCHER, "riskLimitWeights": {}},
            {**WATCHER, "smoothingWindowSize": 5, "riskLimitWeights": HALF},
            "passed",
        ),
        ("PeaksArgs", WATCHER, WATCHER, "passed"),
    ],
)
def test_arguments_are_completed_as_by_trimaran(kind, args, expected, outcome):
    result = outcome_of("config.setDefaults", {"kind": kind, "args": args}, {"args": expected})
    assert result.outcome == outcome, result.text


# Load watcher

NODES = {"n": [{"type": "CPU", "operator": "AVG", "value": 20}]}
SERIES = {"results": [{"id": "a", "dimensions": {"host": "h.example"}}]}


@pytest.mark.parametrize(
    ("given", "expected", "outcome"),
    [
        ({"windows": {"15m": NODES}, "request": "GET /watcher"}, {"onlyHosts": ["n"]}, "passed"),
        ({"windows": {"15m": NODES}, "request": "GET /watcher"}, {"onlyHosts": []}, "failed"),
        ({"windows": {"15m": NODES}, "request": "GET /watcher"}, {"jsonContains": {"source": "x"}}, "failed"),
        (
            {"windows": {"15m": NODES}, "request": "GET /watcher"},
            {"jsonContains": {"data": {"NodeMetricsMap": {}}}},
            "failed",
        ),
        ({"windows": {"15m": NODES}, "request": "GET /watcher/n"}, {"status": 404}, DIFFERENT),
        ({"windows": {"15m": NODES}, "request": "GET /watcher/m"}, {"status": 404}, "passed"),
        ({"windows": {"15m": NODES}, "request": "GET /other"}, {"status": 404}, "passed"),
        ({"windows": {"5m": NODES}, "request": "GET /watcher"}, {"status": 500}, DIFFERENT),
        ({"started": False, "request": "GET /watcher"}, {"status": 500}, DIFFERENT),
        ({"providerHealth": -1, "request": "GET /watcher/health"}, {"status": 503, "body": ""}, "passed"),
    ],
)
def test_the_rest_api_answers_as_upstreams_watcher(given, expected, outcome):
    result = outcome_of("loadwatcher.http", given, expected)
    assert result.outcome == outcome, result.text


@pytest.mark.parametrize(
    ("function", "given", "expected", "outcome"),
    [
        ("loadwatcher.getLatest", {"started": False, "duration": "15m"}, REFUSED, "passed"),
        ("loadwatcher.getLatest", {"windows": {"15m": NODES}, "duration": "15m"}, REFUSED, "failed"),
        ("loadwatcher.serviceClient", {"status": 500, "body": ""}, REFUSED, "passed"),
        ("loadwatcher.serviceClient", {"status": 200, "body": "[]"}, REFUSED, "passed"),
        ("loadwatcher.serviceClient", {"status": 200, "body": "{}"}, {"error": None, "nodes": []}, "passed"),
        ("loadwatcher.encode", {"nodeMetrics": {"n": [{"type": "CPU", "value": "+Inf"}]}}, {}, DIFFERENT),
        (
            "signalfx.getMetricsFromPayloads",
            {"metricData": {}, "metadata": SERIES},
            {**REFUSED, "values": {}},
            "passed",
        ),
        (
            "signalfx.getMetricsFromPayloads",
            {"metricData": {"data": {"a": [[1, 10], [2, 30]]}}, "metadata": SERIES},
            {"values": {"h": 20}},
            "passed",
        ),
        ("signalfx.New", {"name": "invalid", "authToken": "t"}, REFUSED, "passed"),
        ("signalfx.New", {"name": "Prometheus", "authToken": "t"}, REFUSED, DIFFERENT),
        ("datadog.health", {"responseStatus": 403}, {"healthy": False}, "passed"),
        ("datadog.health", {"responseStatus": 403}, {"healthy": True}, "failed"),
    ],
)
def test_the_load_watcher_reads_as_upstreams(function, given, expected, outcome):
    result = outcome_of(function, given, expected)
    assert result.outcome == outcome, result.text
