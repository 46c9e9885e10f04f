from api_types.colocation.controller_config import PredictPolicy
from api_types.node_metric import types as node_metric
from koordlet.cluster import spec_in_force


def policy(**wire):
    return node_metric.MetricCollectPolicy.model_validate(wire)


def test_without_a_policy_upstreams_defaults_are_in_force():
    assert spec_in_force.report_interval_seconds(None) == 60
    assert spec_in_force.usage_window_seconds(policy()) == 300


def test_values_below_the_floors_are_raised():
    assert spec_in_force.report_interval_seconds(policy(reportIntervalSeconds=5)) == 30
    assert spec_in_force.usage_window_seconds(policy(aggregateDurationSeconds=10)) == 60


def test_the_windows_of_the_spec_replace_the_default_and_fifteen_minutes_are_always_among_them():
    assert spec_in_force.aggregate_windows_seconds(None) == [300, 600, 900, 1800]
    given = policy(nodeAggregatePolicy={"durations": ["20m", "1m0s"]})
    assert spec_in_force.aggregate_windows_seconds(given) == [60, 900, 1200]


def test_keys_that_the_spec_leaves_out_have_the_designs_defaults():
    policy = spec_in_force.predict_policy(PredictPolicy(n=3.0))
    assert (policy.n, policy.predictor, policy.cold_start_period_seconds) == (3.0, "n-sigma-v2", 7200)
    assert (policy.check_interval_seconds, policy.resource_diff_threshold_percent) == (20, 5)
    assert spec_in_force.predict_policy(None).cpu_half_life_seconds == 43200


def test_every_predictor_parameter_of_the_policy_reaches_the_predictors():
    policy = PredictPolicy(
        predictor="max",
        n=4.0,
        percentile=97.0,
        cpu_percentile=90.0,
        memory_percentile=91.0,
        request_divisor=1.2,
        members=["percentile", "n-sigma-v1"],
        safety_margin_percent=7,
        cold_start_period_seconds=60,
        cpu_half_life_seconds=3600,
        memory_half_life_seconds=7200,
    )
    given = spec_in_force.predict_parameters(spec_in_force.predict_policy(policy))
    assert given.predictor == "max"
    assert given.members == ("percentile", "n-sigma-v1")
    assert (given.n, given.percentile, given.cpu_percentile, given.memory_percentile) == (4, 97, 90, 91)
    assert (given.request_divisor, given.safety_margin_percent, given.cold_start_period_seconds) == (1.2, 7, 60)
    assert (given.cpu_half_life_seconds, given.memory_half_life_seconds) == (3600, 7200)


def test_what_is_published_spells_out_the_margin_in_force():
    policy = spec_in_force.predict_policy(PredictPolicy(predictor="percentile"))
    assert policy.safety_margin_percent is None
    shown = spec_in_force.published_policy(policy, spec_in_force.predict_parameters(policy))
    assert shown.safety_margin_percent == 10
    assert shown.to_wire()["safetyMarginPercent"] == 10
