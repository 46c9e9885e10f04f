import pydantic
import pytest

from scheduler_plugin.plugins.load_aware.args import LoadAwareArgs


def completed(**given):
    return LoadAwareArgs.model_validate(given).with_defaults()


def fields(**given):
    return [".".join(problem.path) for problem in completed(**given).problems()]


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


@pytest.mark.parametrize("given", [{"onStale": "ignore"}, {"mode": "Soft"}, {"usageSource": "p95"}])
def test_refuses_unknown_values_of_a_switch(given):
    with pytest.raises(pydantic.ValidationError):
        LoadAwareArgs.model_validate(given)
