import pytest
from hypothesis import given
from hypothesis import strategies as st

from koordlet.node_metric_report import schedule

ALLOCATABLE = {"cpu": 10_000, "memory": 10 << 30}


@pytest.mark.parametrize(
    ("old", "new", "due"),
    [
        (1000, 1050, False),  # exactly 5 %
        (1000, 1051, True),
        (1000, 949, True),
        (10, 15, False),  # 5 m of 10 cores: relative to 1 % of allocatable, 100 m, it is exactly 5 %
        (10, 16, True),
        (0, 5, False),
    ],
)
def test_a_change_beyond_the_threshold_is_news(old, new, due):
    published = {"cpu": old, "memory": 1 << 30}
    assert schedule.moved({"cpu": new, "memory": 1 << 30}, published, ALLOCATABLE, 5) is due


def test_a_prediction_that_appears_or_vanishes_is_news():
    nothing = schedule.Published(None, None)
    something = schedule.Published({"cpu": 1, "memory": 1}, {"cpu": 1, "memory": 1})
    assert schedule.is_news(something, nothing, ALLOCATABLE, 5)
    assert schedule.is_news(nothing, something, ALLOCATABLE, 5)
    assert not schedule.is_news(nothing, nothing, ALLOCATABLE, 5)


def test_reclaimable_alone_can_be_news():
    peak = {"cpu": 1000, "memory": 1 << 30}
    old = schedule.Published(peak, {"cpu": 2000, "memory": 1 << 30})
    new = schedule.Published(peak, {"cpu": 3000, "memory": 1 << 30})
    assert schedule.is_news(new, old, ALLOCATABLE, 5)


@given(st.integers(0, 10**6), st.integers(0, 10**6), st.integers(1, 99))
def test_a_larger_threshold_never_makes_more_news(old, new, percent):
    values = ({"cpu": new}, {"cpu": old}, ALLOCATABLE)
    assert schedule.moved(*values, percent) >= schedule.moved(*values, percent + 1)


def test_the_forced_interval_bounds_the_report_interval():
    assert schedule.seconds_between_reports(900, 600) == 600
    assert schedule.seconds_between_reports(60, 600) == 60
