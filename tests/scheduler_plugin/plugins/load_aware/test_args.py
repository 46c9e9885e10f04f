import pydantic
import pytest

from scheduler_plugin.plugins.load_aware import args as load_aware_args
from scheduler_plugin.plugins.load_aware.args import LoadAwareArgs


def completed(**given):
    return LoadAwareArgs.model_validate(given).with_defaults()


def fields(**given):
    return [".".join(problem.path) for problem in load_aware_args.problems(completed(**given))]


def test_thresholds_and_weights_are_completed_only_as_a_whole():
    args = completed(usageThresholds={"cpu": 50}, resourceWeights={"memory": 3})
    assert (args.usage_thresholds, args.resource_weights) == ({"cpu": 50}, {"memory": 3})


def test_scaling_factors_are_completed_per_resource():
    assert completed(estimatedScalingFactors={"cpu": 50}).estimated_scaling_factors == {"cpu": 50, "memory": 70}


def test_a_dominant_weight_leaves_the_weights_empty():
    assert completed(dominantResourceWeight=1).resource_weights == {}


def test_null_means_not_set():
    args = completed(usageThresholds=None, filterExpiredNodeMetrics=None, aggregated=None)
    assert args == completed()
    assert args.filter_expired_node_metrics is True


def test_completing_twice_changes_nothing():
    assert completed().with_defaults() == completed()


def test_reports_all_problems_in_upstreams_order():
    found = fields(
        nodeMetricExpirationSeconds=0,
        resourceWeights={"gpu": 0},
        dominantResourceWeight=101,
        usageThresholds={"cpu": -1, "memory": 101},
        estimatedScalingFactors={"cpu": 0},
        aggregated={
            "usageThresholds": {"cpu": 101},
            "usageAggregationType": "P95",
            "usageAggregatedDuration": "-1m",
            "scoreAggregationType": "max",
            "scoreAggregatedDuration": "-1s",
        },
    )
    assert found == [
        "nodeMetricExpirationSeconds",
        "resourceWeights",
        "dominantResourceWeight",
        "usageThresholds",
        "estimatedScalingFactors",
        "estimatedScalingFactors",
        "aggregated.usageThresholds",
        "aggregated.usageAggregationType",
        "aggregated.usageAggregatedDuration",
        "aggregated.scoreAggregationType",
        "aggregated.scoreAggregatedDuration",
    ]


def test_prod_thresholds_are_not_validated():
    assert fields(prodUsageThresholds={"cpu": 900}) == []


@pytest.mark.parametrize(
    "given",
    [
        {"usageThresholds": {"cpu": 65.0}},
        {"usageThresholds": {"cpu": "65"}},
        {"usageThresholds": {"cpu": True}},
        {"dominantResourceWeight": 2**63},
        {"aggregated": {"usageAggregatedDuration": 300}},
        {"aggregated": {"usageAggregatedDuration": "5 minutes"}},
        {"usagethresholds": {}},
    ],
)
def test_refuses_values_that_upstream_cannot_decode(given):
    with pytest.raises(pydantic.ValidationError):
        LoadAwareArgs.model_validate(given)


def test_the_vector_has_every_named_resource_in_bytewise_order():
    args = LoadAwareArgs.model_validate(
        {
            "prodUsageThresholds": {"example.com/b": 1},
            "aggregated": {"usageThresholds": {"Z": 1}},
            "supportedResources": ["ephemeral-storage"],
        }
    )
    assert args.resources() == ("Z", "cpu", "ephemeral-storage", "example.com/b", "memory")


@pytest.mark.parametrize(
    ("given", "treatment"),
    [
        ({}, "reject"),
        ({"enableScheduleWhenNodeMetricsExpired": True}, "pass"),
        ({"filterExpiredNodeMetrics": False}, "use"),
        ({"onStale": "reject"}, "reject"),
        ({"onStale": "pass"}, "pass"),
        ({"onStale": "use"}, "use"),
        ({"onStale": "pass", "enableScheduleWhenNodeMetricsExpired": True}, "pass"),
        ({"onStale": "use", "filterExpiredNodeMetrics": False, "enableScheduleWhenNodeMetricsExpired": True}, "use"),
    ],
)
def test_a_stale_node_is_treated_by_the_switch_or_upstreams_flags(given, treatment):
    assert fields(**given) == []
    assert completed(**given).stale_node() == treatment


@pytest.mark.parametrize(
    ("on_stale", "flag", "value"),
    [
        ("reject", "filterExpiredNodeMetrics", False),
        ("reject", "enableScheduleWhenNodeMetricsExpired", True),
        ("pass", "filterExpiredNodeMetrics", False),
        ("pass", "enableScheduleWhenNodeMetricsExpired", False),
        ("use", "filterExpiredNodeMetrics", True),
    ],
)
def test_refuses_a_switch_that_contradicts_upstreams_flags(on_stale, flag, value):
    assert fields(onStale=on_stale, **{flag: value}) == [flag]


@pytest.mark.parametrize("given", [{"onStale": "ignore"}, {"mode": "Soft"}, {"usageSource": "p95"}])
def test_refuses_unknown_values_of_a_switch(given):
    with pytest.raises(pydantic.ValidationError):
        LoadAwareArgs.model_validate(given)


@pytest.mark.parametrize("edge", [1, 100])
def test_the_ends_of_a_range_are_accepted(edge):
    percents = {"cpu": edge, "memory": edge}
    assert fields(resourceWeights=percents, estimatedScalingFactors=percents, usageThresholds=percents) == []
    assert fields(dominantResourceWeight=edge, softAfterSeconds=0, nodeMetricExpirationSeconds=1) == []
    assert fields(usageThresholds={"cpu": 0, "memory": 0}, dominantResourceWeight=0) == []
    windows = {"usageThresholds": {"cpu": 0}, "usageAggregatedDuration": "0s", "scoreAggregatedDuration": "0s"}
    assert fields(aggregated=windows) == []
