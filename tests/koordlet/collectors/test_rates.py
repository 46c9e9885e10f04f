"""Rates of counters, and system usage as the rest."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from koordlet.collectors import rates
from koordlet.collectors.rates import CpuReading, NoRate
from koordlet.samples import UsageSample

SECOND = 10**9
nanoseconds = st.integers(min_value=0, max_value=2**62)


def test_rate_is_cpu_time_over_the_time_that_passed():
    before = CpuReading(1, 10 * SECOND, 100 * SECOND)
    assert rates.cpu_cores(before, CpuReading(1, 13 * SECOND, 102 * SECOND), 8) == 1.5


@pytest.mark.parametrize(
    ("before", "now", "reason"),
    [
        (None, CpuReading(1, 5, 5), NoRate.FIRST_READING),
        (CpuReading(1, 5, 5), CpuReading(2, 9, 9), NoRate.OTHER_COUNTER),
        (CpuReading(1, 9, 5), CpuReading(1, 8, 9), NoRate.WENT_BACK),
        (CpuReading(1, 5, 9), CpuReading(1, 9, 9), NoRate.NO_TIME_PASSED),
        (CpuReading(1, 5, 9), CpuReading(1, 9, 8), NoRate.NO_TIME_PASSED),
        (CpuReading(1, 0, 0), CpuReading(1, 100 * SECOND, SECOND), NoRate.IMPOSSIBLE),
    ],
)
def test_readings_without_a_valid_interval_give_no_rate(before, now, reason):
    assert rates.cpu_cores(before, now, cpu_count=4) is reason


@given(
    before=st.builds(CpuReading, st.integers(1, 2), nanoseconds, nanoseconds),
    now=st.builds(CpuReading, st.integers(1, 2), nanoseconds, nanoseconds),
    cpu_count=st.integers(1, 512),
)
def test_whatever_is_read_a_rate_is_refused_or_within_what_the_machine_can_do(before, now, cpu_count):
    rate = rates.cpu_cores(before, now, cpu_count)
    assert isinstance(rate, NoRate) or 0 <= rate <= 2 * cpu_count


@given(
    steps=st.lists(st.tuples(st.integers(0, 4 * SECOND), st.integers(1, 4 * SECOND)), min_size=1, max_size=20),
)
def test_rates_times_their_intervals_add_up_to_the_growth_of_the_counter(steps):
    readings = [CpuReading(1, 0, 0)]
    for used, elapsed in steps:
        readings.append(CpuReading(1, readings[-1].cpu_nanoseconds + used, readings[-1].at_nanoseconds + elapsed))
    integral = sum(
        rates.cpu_cores(before, now, None) * (now.at_nanoseconds - before.at_nanoseconds)
        for before, now in itertools.pairwise(readings)
    )
    assert integral == pytest.approx(readings[-1].cpu_nanoseconds, rel=1e-9, abs=1)


def test_system_is_what_the_pods_do_not_account_for():
    node = UsageSample(4.0, 8e9)
    pods = [UsageSample(1.0, 1e9), UsageSample(0.5, 2e9)]
    assert rates.system_usage(node, pods) == UsageSample(2.5, 5e9)


def test_system_of_each_resource_is_never_below_zero():
    pods = [UsageSample(3.0, 1e9), UsageSample(2.0, 1e9)]
    assert rates.system_usage(UsageSample(4.0, 8e9), pods) == UsageSample(0.0, 6e9)
