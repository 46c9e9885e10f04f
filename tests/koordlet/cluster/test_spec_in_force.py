"""None"""

import dataclasses

import pytest

from api_types.colocation.controller_config import MidColocationPolicy, PredictPolicy
from api_types.node_metric import types as node_metric
from koordlet.cluster import spec_in_force


def policy(**wire):
    return node_metric.MetricCollectPolicy.model_validate(wire)


def test_without_a_policy_the_defaults_of_koordinator_are_in_force():
    assert spec_in_force.report_interval_seconds(None) == 60
    assert spec_in_force.usage_window_seconds(policy()) == 300


def test_values_below_the_lower_bound_are_raised():
    assert spec_in_force.report_interval_seconds(policy(reportIntervalSeconds=5)) == 30
    assert spec_in_force.usage_window_seconds(policy(aggregateDurationSeconds=10)) == 60


def test_a_window_is_at_most_twelve_hours():
    assert spec_in_force.usage_window_seconds(policy(aggregateDurationSeconds=43_200)) == 43_200
    with pytest.raises(ValueError, match="aggregateDurationSeconds: 43201 is too long, want at most 43200"):
        spec_in_force.usage_window_seconds(policy(aggregateDurationSeconds=43_201))


def test_windows_of_the_spec_replace_the_defaults_and_always_include_fifteen_minutes():
    assert spec_in_force.aggregate_windows_seconds(None) == [300, 600, 900, 1800]
    given = policy(nodeAggregatePolicy={"durations": ["20m", "1m0s"]})
    assert spec_in_force.aggregate_windows_seconds(given) == [60, 900, 1200]


OTHER_THAN_DEFAULT = {
    "predictor": "max",
    "n": 4.0,
    "percentile": 97.0,
    "cpu_percentile": 90.0,
    "memory_percentile": 91.0,
    "request_divisor": 1.2,
    "members": ["percentile", "n-sigma-v1"],
    "violation_target_percent": 2.0,
    "horizon_seconds": 900,
    "safety_margin_percent": 7,
    "cold_start": "strict",
    "cold_start_period_seconds": 60,
    "cpu_half_life_seconds": 3600,
    "memory_half_life_seconds": 7201,
}


def test_every_parameter_of_the_policy_reaches_the_predictors():
    policy = spec_in_force.predict_policy(PredictPolicy(**OTHER_THAN_DEFAULT))
    given = dataclasses.asdict(spec_in_force.predict_parameters(policy))
    assert given == OTHER_THAN_DEFAULT | {"members": ("percentile", "n-sigma-v1")}


@pytest.mark.parametrize("name", OTHER_THAN_DEFAULT)
def test_every_parameter_in_use_is_published(name):
    policy = spec_in_force.predict_policy(None)
    other = spec_in_force.predict_policy(PredictPolicy(**{name: OTHER_THAN_DEFAULT[name]}))
    shown = spec_in_force.published_policy(policy, spec_in_force.predict_parameters(other))
    assert getattr(shown, name) == OTHER_THAN_DEFAULT[name] != getattr(policy, name)


def test_the_published_policy_has_the_margin_in_force():
    policy = spec_in_force.predict_policy(PredictPolicy(predictor="percentile"))
    assert policy.safety_margin_percent is None
    shown = spec_in_force.published_policy(policy, spec_in_force.predict_parameters(policy))
    assert shown.safety_margin_percent == 10
    assert shown.to_wire()["safetyMarginPercent"] == 10


# Bounds of the windows and intervals in the spec of a NodeMetric.


def windows(*durations):
    return spec_in_force.aggregate_windows_seconds(policy(nodeAggregatePolicy={"durations": list(durations)}))


def test_a_window_has_one_second_to_twelve_hours():
    assert windows("1s", "12h") == [1, 900, 43_200]
    with pytest.raises(ValueError, match=r"'999ms' is too short, want 1s to 12h"):
        windows("999ms")
    with pytest.raises(ValueError, match=r"'12h0m1s' is too long, want 1s to 12h"):
        windows("12h0m1s")
    with pytest.raises(ValueError, match=r"nodeAggregatePolicy\.durations: "):
        windows("soon")


@pytest.mark.parametrize(
    ("enable", "given", "wanted"), [(True, 65, 65), (True, None, 0), (True, 0, 0), (False, 65, 0), (None, 65, 0)]
)
def test_the_threshold_of_suppression_is_in_force_where_it_is_enabled(enable, given, wanted):
    found = MidColocationPolicy.model_validate({"enable": enable, "midSuppressThresholdPercent": given})
    assert spec_in_force.suppress_threshold_percent(found) == wanted
