"""Shares of NUMA nodes, computed by hand and checked by their sums."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from koordlet.collectors.numa import attribution
from koordlet.collectors.numa.attribution import CpuTimes, NumaMeasurement
from koordlet.samples import NumaSample, UsageSample

SECOND = 1_000_000_000
CPUS = {0: {0, 1}, 1: {2, 3}}
BEFORE = CpuTimes({0: 5 * SECOND, 1: 0, 2: 7 * SECOND, 3: 0}, 100 * SECOND)
CORES = st.floats(0, 1e3)


def after(seconds, **busy_seconds):
    """Return readings some seconds later; each CPU is named cpuN."""
    worked = {cpu: round(busy_seconds.get(f"cpu{cpu}", 0) * SECOND) for cpu in BEFORE.nanoseconds}
    return CpuTimes(
        {cpu: total + worked[cpu] for cpu, total in BEFORE.nanoseconds.items()},
        BEFORE.at_nanoseconds + round(seconds * SECOND),
    )


def test_a_node_uses_what_its_cpus_do_over_the_time_that_passed():
    now = after(10, cpu0=5, cpu1=10, cpu2=1)
    assert attribution.cpu_cores(BEFORE, now, CPUS) == {0: 1.5, 1: 0.1}


def test_a_counter_that_went_back_leaves_its_node_without_a_value():
    now = after(10, cpu0=-1, cpu1=10, cpu2=1)
    assert attribution.cpu_cores(BEFORE, now, CPUS) == {1: 0.1}


def test_a_cpu_that_came_online_leaves_its_node_without_a_value():
    now = after(10, cpu0=1)
    assert attribution.cpu_cores(BEFORE, now, {0: {0, 1}, 1: {2, 3, 4}}) == {0: 0.1}


def test_more_than_a_cpu_can_do_is_no_value():
    assert attribution.cpu_cores(BEFORE, after(1, cpu0=100), CPUS) == {1: 0.0}


def test_a_node_of_memory_only_uses_no_cpu():
    assert attribution.cpu_cores(BEFORE, after(1), {2: set()}) == {2: 0.0}


@pytest.mark.parametrize("now", [after(0), after(-1)])
def test_without_time_between_the_readings_there_is_no_rate(now):
    assert attribution.cpu_cores(BEFORE, now, CPUS) == {}


def test_the_first_reading_gives_no_rate():
    assert attribution.cpu_cores(None, BEFORE, CPUS) == {}


def test_an_idle_node_has_an_idle_system():
    assert attribution.system_cpu_cores(0.0, {0: 0.0, 1: 0.0}) == {0: 0.0, 1: 0.0}


@given(CORES, st.dictionaries(st.integers(0, 7), st.floats(1e-6, 1e3), min_size=1))
def test_the_shares_of_the_system_add_up_to_it_and_are_in_proportion(system, of_nodes):
    shares = attribution.system_cpu_cores(system, of_nodes)
    assert sum(shares.values()) == pytest.approx(system)
    for node, used in of_nodes.items():
        assert shares[node] * sum(of_nodes.values()) == pytest.approx(used * system)


def test_memory_of_pods_is_not_system_memory_and_the_rest_is_never_below_zero():
    assert attribution.system_memory_bytes({0: 100, 1: 50, 2: 7}, {0: 30, 1: 60}) == {0: 70, 1: 0, 2: 7}


def test_one_node_without_memory_is_left_out_and_the_others_remain():
    measured = NumaMeasurement({0: 1.0, 1: 3.0}, {0: 100}, {0: 40}, {0, 1})
    assert attribution.samples(measured, UsageSample(2.0, 0.0)) == {
        0: NumaSample(UsageSample(1.0, 100.0), UsageSample(0.5, 60.0))
    }


@pytest.mark.parametrize(
    ("measured", "system"),
    [
        (NumaMeasurement({0: 1.0, 1: 3.0}, {0: 100, 1: 50}, None, {0, 1}), UsageSample(2.0, 0.0)),
        (NumaMeasurement({0: 1.0, 1: 3.0}, {0: 100, 1: 50}, {0: 1}, {0, 1}), None),
        (NumaMeasurement({0: 1.0}, {0: 100, 1: 50}, {0: 1}, {0, 1}), UsageSample(2.0, 0.0)),
    ],
    ids=["a pod could not be read", "the system is not known", "a node has no CPU rate"],
)
def test_without_a_known_sum_the_system_share_is_unknown(measured, system):
    found = attribution.samples(measured, system)
    assert found[0] == NumaSample(UsageSample(1.0, 100.0), None)
    assert all(sample.system is None for sample in found.values())
