"""Bounds of usage that was held down, and of a rate: the shortest window, the least waiting, twice the CPUs."""

import pytest

from koordlet.collectors import rates
from koordlet.collectors.capped_usage import CappedUsage
from koordlet.collectors.rates import CpuReading, NoRate
from koordlet.samples import Resource
from tests.koordlet.collectors.test_capped_usage import usage_of, waited, waits

SECOND = 10**9


@pytest.mark.parametrize(("passed", "is_short"), [(58.9, False), (59.0, True)])
def test_waits_of_pods_are_compared_after_59_seconds(passed, is_short):
    usage, pods = CappedUsage(), usage_of({}, {"a": 1.0})
    usage.resources(100.0, [waits(a=0.0)], pods)
    found = usage.resources(100.0 + passed, [waits(a=6.0)], pods)
    assert found == ({Resource.MEMORY} if is_short else set())


def test_less_than_a_second_of_waiting_counts_where_it_is_a_tenth_of_the_time():
    usage = CappedUsage()
    usage.resources(100.0, [waited(20.0)], {})
    assert usage.resources(105.0, [waited(20.75)], {}) == {Resource.MEMORY}


def test_two_readings_at_one_time_are_no_shortage():
    usage = CappedUsage()
    usage.resources(100.0, [waited(20.0)], {})
    assert usage.resources(100.0, [waited(20.0)], {}) == set()


def test_a_rate_of_twice_the_cpus_is_possible_and_a_larger_one_is_not():
    before = CpuReading(1, 0, 0)
    assert rates.cpu_cores(before, CpuReading(1, 8 * SECOND, SECOND), 4) == 8.0
    assert rates.cpu_cores(before, CpuReading(1, 8 * SECOND + 1, SECOND), 4) is NoRate.IMPOSSIBLE


def test_a_counter_that_does_not_move_is_a_rate_of_0():
    assert rates.cpu_cores(CpuReading(1, 5, 0), CpuReading(1, 5, 1), 4) == 0.0
