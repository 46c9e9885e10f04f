import pytest

from koordlet.collectors import node_pressure, pod_pressure
from koordlet.collectors.capped_usage import CappedUsage
from koordlet.collectors.interface import Measurement
from koordlet.samples import Resource


class Measured:
    """A collector of one metric with the given values."""

    def __init__(self, metric, *measurements):
        self.metrics = (metric,)
        self._measurements = measurements

    def measurements(self, metric):
        assert metric in self.metrics
        return self._measurements


def throttled(**ratios):
    return Measured(pod_pressure.THROTTLED_RATIO, *(Measurement(value, pod_uid=uid) for uid, value in ratios.items()))


def waited(seconds, kind="some"):
    return Measured(node_pressure.WAITED_SECONDS, Measurement(seconds, ("memory", kind)))


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
    found = CappedUsage().resources(0.0, [throttled(**ratios)], cores)
    assert found == ({Resource.CPU} if is_capped else set())


def test_memory_usage_is_held_down_while_tasks_wait_for_memory_a_tenth_of_the_time():
    usage, expected = CappedUsage(), []
    for now, seconds in ((0.0, 100.0), (30.0, 102.9), (60.0, 105.9), (90.0, 105.9)):
        expected.append(bool(usage.resources(now, [waited(seconds)], {})))
    assert expected == [False, False, True, False]


def test_the_time_in_which_all_tasks_wait_does_not_count_twice():
    usage = CappedUsage()
    usage.resources(0.0, [waited(0.0, "full")], {})
    assert not usage.resources(30.0, [waited(30.0, "full")], {})


def test_a_kernel_without_pressure_files_is_never_short_of_memory():
    usage = CappedUsage()
    assert [usage.resources(now, [], {}) for now in (0.0, 30.0)] == [set(), set()]


def test_a_gap_in_the_readings_begins_again():
    usage = CappedUsage()
    usage.resources(0.0, [waited(0.0)], {})
    usage.resources(30.0, [], {})
    assert not usage.resources(60.0, [waited(60.0)], {})
