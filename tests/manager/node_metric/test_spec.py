import json

import pytest

from api_types.colocation import controller_config as slo
from api_types.colocation import document
from api_types.colocation.controller_config import ColocationStrategy, MetricAggregatePolicy
from api_types.node_metric import crd_manifest
from manager.node_metric import spec as collect_policy
from manager.slo_config.strategy import NodeStrategy, configuration, node_strategy

DEFAULT = {
    "aggregateDurationSeconds": 300,
    "reportIntervalSeconds": 60,
    "nodeAggregatePolicy": {"durations": ["5m0s", "10m0s", "30m0s"]},
    "nodeMemoryCollectPolicy": "usageWithoutPageCache",
}


def holds(enabled=True, **keys):
    return NodeStrategy(slo.merge(slo.DEFAULTS, ColocationStrategy(enable=enabled, **keys)), enabled, ())


def test_the_collect_policy_follows_the_strategy():
    strategy = holds(
        metric_report_interval_seconds=30, metric_aggregate_policy=MetricAggregatePolicy(durations=["15m0s"])
    )
    wire = collect_policy.spec_of(strategy).to_wire()["metricCollectPolicy"]
    assert wire == {**DEFAULT, "reportIntervalSeconds": 30, "nodeAggregatePolicy": {"durations": ["15m0s"]}}


@pytest.mark.parametrize(("given", "canonical"), [("1.5h", "1h30m0s"), ("90000ms", "1m30s")])
def test_any_go_duration_of_the_document_reaches_the_spec(given, canonical):
    config = document.read_config(f'{{"metricAggregatePolicy": {{"durations": ["{given}"]}}}}').config
    strategy = holds(metric_aggregate_policy=config.metric_aggregate_policy)
    wire = collect_policy.spec_of(strategy).to_wire()["metricCollectPolicy"]
    assert wire["nodeAggregatePolicy"] == {"durations": [canonical]}


def test_the_crd_puts_no_pattern_on_a_duration():
    """The agent parses the full grammar of Go; a pattern in the CRD would reject a part of it."""
    schema = crd_manifest.structural_schema()
    for step in ("spec", "metricCollectPolicy", "nodeAggregatePolicy", "durations"):
        schema = schema["properties"][step]
    assert schema["items"] == {"type": "string"}


def test_a_node_that_takes_no_part_is_measured_by_the_default_policy():
    spec = collect_policy.spec_of(holds(enabled=False, metric_report_interval_seconds=30)).to_wire()
    assert spec["metricCollectPolicy"] == DEFAULT
    assert spec["midColocationPolicy"]["enable"] is False


def test_prediction_and_mid_policies_are_carried_whole():
    spec = collect_policy.spec_of(holds(mid_cpu_threshold_percent=40)).to_wire()
    assert spec["midColocationPolicy"]["midCPUThresholdPercent"] == 40
    assert spec["midColocationPolicy"]["enable"] is True
    assert spec["predictPolicy"]["predictor"] == "n-sigma-v2"


def test_a_disabled_strategy_has_no_collect_policy():
    with pytest.raises(collect_policy.ColocationDisabled):
        collect_policy.collect_policy(ColocationStrategy(enable=False))


def _predict_policy(given):
    read = document.read_config(json.dumps(given)).config
    return collect_policy.spec_of(node_strategy(configuration(read), {}, {})).predict_policy


@pytest.mark.parametrize(
    ("given", "predictor", "members"),
    [
        ({"predictor": "calibrated"}, "max", ["calibrated", "n-sigma-v2"]),
        ({"predictor": "max", "members": ["calibrated"]}, "max", ["calibrated", "n-sigma-v2"]),
        (
            {"predictor": "max", "members": ["percentile", "calibrated"]},
            "max",
            ["percentile", "calibrated", "n-sigma-v2"],
        ),
        ({"predictor": "max", "members": ["n-sigma-v2", "calibrated"]}, "max", ["n-sigma-v2", "calibrated"]),
        ({"predictor": "percentile", "members": ["calibrated"]}, "percentile", ["calibrated"]),
        ({}, "n-sigma-v2", ["n-sigma-v2", "resource-central"]),
    ],
)
def test_a_calibrated_peak_never_counts_without_that_of_n_sigma_v2(given, predictor, members):
    policy = _predict_policy({"enable": True, "nodePredictPolicy": given})
    assert (policy.predictor, policy.members) == (predictor, members)
    assert policy.violation_target_percent == 1.0


@pytest.mark.parametrize(("preset", "target"), [("balanced", 1.0), ("aggressive", 2.0)])
def test_a_preset_with_a_target_is_behind_the_same_gate(preset, target):
    policy = _predict_policy({"enable": True, "preset": preset})
    assert (policy.predictor, policy.members) == ("max", ["calibrated", "n-sigma-v2"])
    assert policy.violation_target_percent == target
    assert policy.cold_start_period_seconds == 7200
