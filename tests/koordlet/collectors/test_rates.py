"""Rates of counters, and system usage as the rest."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from koordlet.collectors import rates
from koordlet.collectors.rates import NoRate
from koordlet.samples import UsageSample

SECOND = 10**9
nanoseconds = st.integers(min_value=-(2**62), max_value=2**62)


def test_rate_is_cpu_time_over_the_time_that_passed():
    assert rates.cores_between(3 * SECOND, 2 * SECOND, 8) == 1.5


@pytest.mark.parametrize(
    ("used", "elapsed", "reason"),
    [
        (-1, 4, NoRate.WENT_BACK),
        (4, 0, NoRate.NO_TIME_PASSED),
        (4, -1, NoRate.NO_TIME_PASSED),
        (100 * SECOND, SECOND, NoRate.IMPOSSIBLE),
    ],
)
def test_readings_without_a_valid_interval_give_no_rate(used, elapsed, reason):
    assert rates.cores_between(used, elapsed, cpu_count=4) is reason


@given(used=nanoseconds, elapsed=nanoseconds, cpu_count=st.integers(1, 512))
def test_whatever_is_read_a_rate_is_refused_or_within_what_the_machine_can_do(used, elapsed, cpu_count):
    rate = rates.cores_between(used, elapsed, cpu_count)
    assert isinstance(rate, NoRate) or 0 <= rate <= 2 * cpu_count


def test_system_is_what_the_pods_do_not_account_for():
    node = UsageSample(4.0, 8e9)
    pods = [UsageSample(1.0, 1e9), UsageSample(0.5, 2e9)]
    assert rates.system_usage(node, pods) == UsageSample(2.5, 5e9)


def test_system_of_each_resource_is_never_below_zero():
    pods = [UsageSample(3.0, 1e9), UsageSample(2.0, 1e9)]
    assert rates.system_usage(UsageSample(4.0, 8e9), pods) == UsageSample(0.0, 6e9)
