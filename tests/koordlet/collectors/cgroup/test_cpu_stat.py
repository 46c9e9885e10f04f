import pytest
from hypothesis import given
from hypothesis import strategies as st

from koordlet.collectors.cgroup import cpu_stat
from koordlet.collectors.cgroup.cpu_stat import CpuPeriods

V1 = b"nr_periods 40\nnr_throttled 12\nthrottled_time 812000000\nnr_bursts 0\nburst_time 0\n"
V2 = (
    b"usage_usec 9120\nuser_usec 9000\nsystem_usec 120\n"
    b"nr_periods 40\nnr_throttled 12\nthrottled_usec 812000\nnr_bursts 0\nburst_usec 0\n"
)
counts = st.integers(0, 2**62)


@pytest.mark.parametrize("text", [V1, V2], ids=["v1", "v2"])
def test_both_versions_count_periods_alike(text):
    assert cpu_stat.cpu_periods(text) == (40, 12)


def test_a_group_without_the_cpu_controller_counts_no_periods():
    with pytest.raises(ValueError, match="no nr_periods and nr_throttled, got b'usage_usec 9120"):
        cpu_stat.cpu_periods(V2.partition(b"nr_periods")[0])


@pytest.mark.parametrize(
    ("before", "now", "ratio"),
    [
        ((40, 12), (50, 17), 0.5),
        ((0, 0), (10, 0), 0.0),
        ((40, 12), (40, 12), None),  # no limit, or no work
        ((40, 12), (3, 1), None),  # recreated
        ((40, 12), (50, 11), None),
        ((40, 12), (49, 21), None),  # too few periods
        ((40, 12), (50, 23), 1.0),  # a period ended between the two lines
    ],
)
def test_the_ratio_is_of_the_periods_between_two_readings(before, now, ratio):
    assert cpu_stat.throttled_ratio(CpuPeriods(*before), CpuPeriods(*now)) == ratio


@given(counts, counts, counts, counts)
def test_whatever_the_counters_a_ratio_lies_between_0_and_1(periods, throttled, later_periods, later_throttled):
    ratio = cpu_stat.throttled_ratio(CpuPeriods(periods, throttled), CpuPeriods(later_periods, later_throttled))
    assert ratio is None or 0 <= ratio <= 1


def test_the_worst_group_counts_for_the_pod():
    assert cpu_stat.worst([None, 0.1, 0.7, 0.0]) == 0.7
    assert cpu_stat.worst([None, None]) is None
