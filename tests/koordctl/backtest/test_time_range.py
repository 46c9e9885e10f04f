"""Steps of `koordctl backtest`, the days that they are read by, and which days are kept."""

import pytest

from koordctl.backtest import prometheus
from koordctl.backtest.prometheus import DAY_SECONDS, TimeRange

DAY = 20_000 * DAY_SECONDS
LATER = DAY + 10 * DAY_SECONDS


@pytest.mark.parametrize(
    ("start", "end", "expected"),
    [
        (600, 1_200, (600, 300, 3)), (601, 1_200, (900, 300, 2)), (600, 1_199, (600, 300, 2)),
        (600, 600, (600, 300, 1)), (601, 899, (900, 300, 0)), (0, 299, (0, 300, 1)),
    ],
)  # fmt: skip
def test_steps_are_multiples_and_both_ends_are_included(start, end, expected):
    found = prometheus.steps_between(start, end, 300)
    assert found == expected
    if found.steps:
        assert found.end == found.start + 300 * (found.steps - 1) <= end


@pytest.mark.parametrize(("since_end", "is_complete"), [(0, False), (3_599, False), (3_600, True), (7_200, True)])
def test_a_day_is_complete_an_hour_after_its_end(since_end, is_complete):
    asked = TimeRange(DAY + 6_000, 300, 2)
    (found,) = prometheus.split_days(asked, DAY + DAY_SECONDS + since_end)
    assert found.is_complete is is_complete
    assert found.time_range == ((DAY, 300, 288) if is_complete else asked)


def test_the_days_of_a_range_are_whole_but_the_last_one_that_is_not_over():
    asked = prometheus.steps_between(DAY + DAY_SECONDS - 600, DAY + 2 * DAY_SECONDS + 900, 300)
    now = DAY + 2 * DAY_SECONDS + 3_600
    assert prometheus.split_days(asked, now) == [
        ((DAY, 300, 288), True), ((DAY + DAY_SECONDS, 300, 288), True), ((DAY + 2 * DAY_SECONDS, 300, 4), False),
    ]  # fmt: skip


def test_a_range_that_ends_with_a_day_has_no_step_of_the_next_one():
    asked = TimeRange(DAY, 300, 288)
    assert [each.time_range for each in prometheus.split_days(asked, LATER)] == [asked]
    (first, second) = prometheus.split_days(TimeRange(DAY, 300, 289), DAY + DAY_SECONDS)
    assert (first.time_range, second.time_range) == (asked, (DAY + DAY_SECONDS, 300, 1))
