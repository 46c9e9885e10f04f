"""Which limits, usage and statistics apply to a pod, and the reason that names them."""

import json

import numpy as np
import pytest
from prometheus_client import CollectorRegistry

from scheduler_plugin.plugins.load_aware import plugin as load_aware
from tests.scheduler_plugin import factories
from tests.scheduler_plugin.factories import NOW

ROOMY = {"cpu": 65, "memory": 95}
USAGE = {"cpu": "30", "memory": "1Gi"}


def window(**cores):
    """Return the ten minutes of a report, by statistic."""
    usage = {name: {"resources": {"cpu": str(cpu), "memory": "1Gi"}} for name, cpu in cores.items()}
    return [{"duration": "10m0s", "usage": usage}]


def made(args, *, report=True, usage=USAGE, **metric):
    parts = factories.parts(args)
    parts.cluster.node_changed(factories.node("n1"))
    if report:
        parts.cluster.metric_changed(factories.metric("n1", usage=usage, **metric))
    return parts


def reason(args, **metric):
    return reason_of(made(args, **metric), is_prod=False)


def reason_of(parts, *, is_prod):
    pod = factories.pod_document("web", priority=9500 if is_prod else None)
    answer = json.loads(parts.extender.filter(factories.request(pod, ["n1"]), NOW))
    return (answer.get("FailedAndUnresolvableNodes") or {}).get("n1")


def test_one_limit_is_enough_to_reject_a_node():
    assert reason({"usageThresholds": {"cpu": 20}}) == "node(s) cpu usage exceed threshold"


def test_a_resource_that_the_node_does_not_have_is_not_limited():
    args = {"usageThresholds": {**ROOMY, "example.com/gpu": 50}}
    assert reason(args, usage={**USAGE, "example.com/gpu": "5"}) is None


@pytest.mark.parametrize(("is_prod", "wanted"), [(True, "node(s) cpu usage exceed threshold"), (False, None)])
def test_the_limits_of_prod_apply_to_prod_pods_alone(is_prod, wanted):
    parts = made({"usageThresholds": ROOMY, "prodUsageThresholds": {"cpu": 20}}, usage={"cpu": "1", "memory": "1Gi"})
    parts.cluster.assume_pod(factories.pod("other", requests={"cpu": "36"}), "n1", NOW)  # estimated at 30.6 cores
    assert reason_of(parts, is_prod=is_prod) == wanted


@pytest.mark.parametrize(
    ("p95", "wanted"), [(40, "node(s) cpu aggregated usage exceed threshold"), (10, None), (20, None)]
)
def test_a_statistic_is_compared_in_place_of_the_newest_usage(p95, wanted):
    block = {"usageThresholds": {"cpu": 20}, "usageAggregationType": "p95", "usageAggregatedDuration": "10m"}
    pod_without_usage = {"estimatedScalingFactors": {"cpu": 1, "memory": 1}}
    assert reason({"aggregated": block, **pod_without_usage}, aggregated=window(p95=p95)) == wanted


FILTERED = {"usageThresholds": {"cpu": 50}, "usageAggregationType": "p50", "usageAggregatedDuration": "10m"}
SCORED = {"scoreAggregationType": "p95", "scoreAggregatedDuration": "10m"}


@pytest.mark.parametrize(
    ("block", "reported", "missing"),
    [
        (FILTERED, window(p50=1), 0),
        (FILTERED, window(p95=1), 1),
        (SCORED, window(p95=1), 0),
        (SCORED, window(p50=1), 1),
        ({**FILTERED, **SCORED}, window(p50=1, p95=1), 0),
        ({**FILTERED, **SCORED}, window(p50=1), 1),
        ({**FILTERED, **SCORED}, window(p95=1), 1),
        (FILTERED, None, 0),
    ],
)
def test_a_report_without_a_configured_statistic_is_counted_and_a_missing_report_is_not(block, reported, missing):
    parts = made({"aggregated": block}, report=reported is not None, aggregated=reported)
    registry = CollectorRegistry()
    for collector in parts.collectors():
        registry.register(collector)
    labels = {"plugin": "LoadAwareScheduling", "kind": "missing_window"}
    assert registry.get_sample_value("koord_scheduler_plugin_node_problems", labels) == missing


def test_the_free_share_is_0_without_capacity_and_above_it():
    used, capacity = np.array([11, 10, 0, 0, 1]), np.array([10, 10, 0, 1, 4])
    assert load_aware.least_used_score(used, capacity).tolist() == [0, 0, 0, 100, 75]


def test_the_scarcest_resource_scores_at_most_100():
    used, capacity = np.array([[-10], [-20]]), np.array([[100], [100]])
    assert load_aware.weighted_score(1, np.array([0, 0]), used, capacity).tolist() == [100]


def test_a_limit_of_one_percent_is_a_limit():
    assert reason({"usageThresholds": {"cpu": 1}}) == "node(s) cpu usage exceed threshold"


def test_a_node_whose_report_has_no_usage_scores_0():
    parts = made({}, usage=None)
    answer = parts.extender.prioritize(factories.request(factories.pod_document("web"), ["n1"]), NOW)
    assert json.loads(answer) == [{"Host": "n1", "Score": 0}]
