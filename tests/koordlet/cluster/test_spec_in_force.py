"""None"""

import dataclasses

import pytest

from api_types.colocation.controller_config import MidColocationPolicy, PredictPolicy
from api_types.node_metric import types as node_metric
from koordlet.cluster import spec_in_force
from koordlet.prediction.parameters import PredictParameters


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


def test_keys_missing_in_the_spec_have_their_defaults():
    policy = spec_in_force.predict_policy(PredictPolicy(n=3.0))
    assert (policy.n, policy.predictor, policy.cold_start_period_seconds) == (3.0, "n-sigma-v2", 7200)
    assert (policy.check_interval_seconds, policy.resource_diff_threshold_percent) == (20, 5)
    assert spec_in_force.predict_policy(None).cpu_half_life_seconds == 43200


REPORT_KEYS = {"resource_diff_threshold_percent", "check_interval_seconds", "force_update_interval_seconds"}
"""Keys of the policy for the schedule of reports."""
EVALUATION_KEYS = {"evaluated_predictors"}
"""The key of the policy for the live evaluation alone; all others are parameters of predictors."""

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
    "cold_start_period_seconds": 60,
    "cpu_half_life_seconds": 3600,
    "memory_half_life_seconds": 7201,
}


def test_every_key_of_the_policy_is_used_by_predictors_evaluation_or_report_schedule():
    parameters = {field.name for field in dataclasses.fields(PredictParameters)}
    assert parameters == OTHER_THAN_DEFAULT.keys()
    assert parameters | REPORT_KEYS | EVALUATION_KEYS == PredictPolicy.model_fields.keys()


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


def test_no_windows_in_the_spec_leave_that_of_the_load_watcher():
    assert windows() == [900]


def test_the_least_interval_and_window_may_be_given():
    assert spec_in_force.report_interval_seconds(policy(reportIntervalSeconds=30)) == 30
    assert spec_in_force.report_interval_seconds(policy(reportIntervalSeconds=31)) == 31
    assert spec_in_force.usage_window_seconds(policy(aggregateDurationSeconds=60)) == 60
    assert spec_in_force.usage_window_seconds(policy(aggregateDurationSeconds=61)) == 61


@pytest.mark.parametrize(
    ("enable", "given", "wanted"), [(True, 65, 65), (True, None, 0), (True, 0, 0), (False, 65, 0), (None, 65, 0)]
)
def test_the_threshold_of_suppression_is_in_force_where_it_is_enabled(enable, given, wanted):
    found = MidColocationPolicy.model_validate({"enable": enable, "midSuppressThresholdPercent": given})
    assert spec_in_force.suppress_threshold_percent(found) == wanted


def test_without_a_policy_of_mid_there_is_no_suppression():
    assert spec_in_force.suppress_threshold_percent(None) == 0
