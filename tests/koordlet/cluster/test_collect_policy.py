from api_types.node_metric import types as node_metric
from koordlet.cluster import collect_policy


def policy(**wire):
    return node_metric.MetricCollectPolicy.model_validate(wire)


def test_without_a_policy_upstreams_defaults_are_in_force():
    assert collect_policy.report_interval_seconds(None) == 60
    assert collect_policy.usage_window_seconds(policy()) == 300


def test_values_below_the_floors_are_raised():
    assert collect_policy.report_interval_seconds(policy(reportIntervalSeconds=5)) == 30
    assert collect_policy.usage_window_seconds(policy(aggregateDurationSeconds=10)) == 60


def test_the_windows_of_the_spec_replace_the_default_and_fifteen_minutes_are_always_among_them():
    assert collect_policy.aggregate_windows_seconds(None) == [300, 600, 900, 1800]
    given = policy(nodeAggregatePolicy={"durations": ["20m", "1m0s"]})
    assert collect_policy.aggregate_windows_seconds(given) == [60, 900, 1200]
