import math

import pytest

from koordlet.collectors import node_pressure, pod_pressure
from koordlet.collectors.capped_usage import CappedUsage
from koordlet.collectors.interface import MeasuredValue
from koordlet.samples import Resource, UsageSample


class Measured:
    """A collector of one metric with the given values."""

    def __init__(self, metric, *measurements):
        self.metrics = (metric,)
        self._measurements = measurements

    def measurements(self, metric):
        assert metric in self.metrics
        return self._measurements


def throttled(**ratios):
    return Measured(pod_pressure.THROTTLED_RATIO, *(MeasuredValue(value, pod_uid=uid) for uid, value in ratios.items()))


def waits(**seconds):
    """Return the collector of cgroup v2: each pod waited so long for memory."""
    found = [
        MeasuredValue(value, (resource, kind), uid)
        for uid, waited_seconds in seconds.items()
        for resource, kind, value in (("memory", "some", waited_seconds), ("memory", "full", 0.0), ("io", "some", 1e6))
    ]
    return Measured(pod_pressure.WAITED_SECONDS, *found)


def usage_of(cores, used_bytes):
    return {uid: UsageSample(cores.get(uid, 0.0), used_bytes.get(uid, 0.0)) for uid in {*cores, *used_bytes}}


def waited(seconds, kind="some"):
    return Measured(node_pressure.WAITED_SECONDS, MeasuredValue(seconds, ("memory", kind)))


@pytest.mark.parametrize(
    ("ratios", "cores", "is_capped"),
    [
        ({"a": 0.25}, {"a": 1.0, "b": 9.0}, True),
        ({"a": 0.25}, {"a": 0.9, "b": 9.0}, False),  # a tenth of the usage
        ({"a": 0.24}, {"a": 1.0}, False),
        ({"a": 0.3, "c": 0.9}, {"a": 0.5, "b": 9.0, "c": 0.6}, True),
        ({"mid": 1.0}, {"a": 1.0}, False),  # throttled, and not one of the pods
        ({"a": 1.0}, {"a": 0.0}, False),
        ({}, {}, False),
    ],
)
def test_cpu_usage_is_held_down_where_throttled_pods_have_a_tenth_of_it(ratios, cores, is_capped):
    found = CappedUsage().resources(0.0, [throttled(**ratios)], usage_of(cores, {}))
    assert found == ({Resource.CPU} if is_capped else set())


def test_memory_usage_is_held_down_while_tasks_wait_for_memory_a_tenth_of_the_time():
    usage, expected = CappedUsage(), []
    for now, seconds in ((0.0, 100.0), (30.0, 102.9), (60.0, 105.9), (90.0, 105.9)):
        expected.append(bool(usage.resources(now, [waited(seconds)], {})))
    assert expected == [False, False, True, False]


def test_a_kernel_without_pressure_files_is_never_short_of_memory():
    usage = CappedUsage()
    assert [usage.resources(now, [], {}) for now in (0.0, 30.0)] == [set(), set()]


@pytest.mark.parametrize(
    ("seconds", "used_bytes", "is_short"),
    [
        ({"a": 6.0}, {"a": 1.0, "b": 9.0}, True),
        ({"a": 5.9}, {"a": 1.0, "b": 9.0}, False),  # of a minute
        ({"a": 60.0}, {"a": 0.9, "b": 9.0}, False),  # a tenth of the usage
        ({"a": 6.0, "b": 6.0}, {"a": 0.5, "b": 0.5, "c": 9.0}, True),
        ({"mid": 60.0, "a": 0.0}, {"a": 1.0}, False),  # waits for its own limit
        ({"a": 60.0}, {"a": math.nan}, False),
        ({"a": 60.0}, {"a": 1.0, "b": math.nan}, True),
        ({"a": -5.0}, {"a": 1.0}, False),  # a new group
    ],
)
def test_memory_is_held_down_where_pods_that_wait_for_it_have_a_tenth_of_the_usage(seconds, used_bytes, is_short):
    usage, before = CappedUsage(), dict.fromkeys(seconds, 100.0)
    pods = usage_of({}, used_bytes)
    assert not usage.resources(0.0, [waits(**before)], pods)
    after = {uid: before[uid] + seconds[uid] for uid in seconds}
    assert not usage.resources(30.0, [waits(**after)], pods)
    assert usage.resources(60.0, [waits(**after)], pods) == ({Resource.MEMORY} if is_short else set())
    assert usage.resources(90.0, [waits(**after)], pods) == ({Resource.MEMORY} if is_short else set())
    assert not usage.resources(120.0, [waits(**after)], pods)


def test_a_pod_is_read_once_a_minute_and_no_reading_counts_twice_or_never():
    usage, expected = CappedUsage(), []
    for number in range(21):
        seconds = number // 2 * 7.0 if number <= 10 else 35.0  # 7 s of each minute until the fifth
        found = usage.resources(30.0 * number, [waits(a=seconds)], usage_of({}, {"a": 1.0}))
        expected.append(bool(found))
    assert expected == [False] * 2 + [True] * 10 + [False] * 9


def test_a_mid_pod_that_thrashes_hides_nothing_of_prod_where_the_kernel_counts_the_pressure_of_pods():
    usage, pods = CappedUsage(), usage_of({}, {"prod": 1.0})
    for number in range(10):
        mid = waits(mid=20.0 * number, prod=0.0)
        assert not usage.resources(30.0 * number, [waited(20.0 * number), mid], pods)
