"""Bounds of the windows and intervals in the spec of a NodeMetric."""

import pytest

from api_types.colocation.controller_config import MidColocationPolicy
from koordlet.cluster import spec_in_force
from tests.koordlet.cluster.test_spec_in_force import policy


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
