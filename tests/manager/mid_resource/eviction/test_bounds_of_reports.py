"""Reports at the bounds of what an eviction may be based on."""

import datetime as dt

import pytest

from api_types import names
from manager.mid_resource.decision import FUTURE_TOLERANCE
from manager.mid_resource.eviction import shortage
from manager.mid_resource.eviction.shortage import Observation

NOON = dt.datetime(2026, 11, 21, 12, tzinfo=dt.UTC)
SEEN = Observation(NOON, {names.MID_CPU: 0}, {names.MID_CPU: 1000}, 1)
SECOND, HOUR = dt.timedelta(seconds=1), dt.timedelta(hours=1)


def stamp(time):
    return f"{time:%Y-%m-%dT%H:%M:%SZ}"


def fault(*, sample=NOON, now=NOON, cold_start=HOUR, **status):
    read = shortage.FullReport(status=shortage.ReportStatus(update_time=stamp(sample), **status))
    return shortage.fault(read, SEEN, cold_start, now)


@pytest.mark.parametrize(("beyond", "is_fault"), [(0, False), (-1, False), (1, True)])
def test_a_history_shows_something_from_the_cold_start_period_on(beyond, is_fault):
    since = NOON - HOUR + beyond * SECOND
    found = fault(prediction=shortage.ReportPrediction(since=stamp(since)))
    assert bool(found) is is_fault
    if is_fault:
        assert found == "its history begins at 2026-11-21T11:00:01Z, later than coldStartPeriodSeconds ago"


@pytest.mark.parametrize(
    ("sample", "is_fault"),
    [
        (NOON, False),
        (NOON + HOUR, False),
        (NOON - SECOND, True),
        (NOON + HOUR + FUTURE_TOLERANCE, False),
        (NOON + HOUR + FUTURE_TOLERANCE + SECOND, True),
    ],
)
def test_a_report_that_is_older_than_the_one_that_showed_the_shortage_or_of_the_future_is_none(sample, is_fault):
    assert bool(fault(sample=sample, now=NOON + HOUR)) is is_fault


async def evicted_with(short, **classes):
    """Return the pods that are evicted where the classes of pods of a node of 10 cores and 20k use so much."""
    await short.start()
    for name in "abc":
        short.add_pod(name)
    none = {"cpu": "0", "memory": "0"}
    usage = {name: none | classes.get(name, {}) for name in ("prod", "mid", "batchAndFree", "system")}
    await short.minutes(3, usage=usage)
    return short.evicted


@pytest.mark.parametrize(
    "usage",
    [
        {"prod": {"cpu": "10"}, "system": {"cpu": "1"}},
        {"prod": {"memory": "21900"}, "batchAndFree": {"memory": "100"}},
    ],
)
async def test_a_usage_of_a_tenth_above_the_capacity_is_possible(short, usage):
    assert await evicted_with(short, **usage) == ["a"]


@pytest.mark.parametrize(
    "usage",
    [
        {"prod": {"cpu": "10"}, "system": {"cpu": "1001m"}},
        {"prod": {"memory": "21900"}, "batchAndFree": {"memory": "101"}},
    ],
)
async def test_on_a_usage_that_no_node_can_have_no_eviction_is_based(short, usage):
    assert await evicted_with(short, **usage) == []


@pytest.mark.parametrize(("calculated", "evicted"), [(-2000, ["a"]), (-2001, [])])
async def test_a_peak_is_at_most_the_capacity(short, calculated, evicted):
    """The Prod pods request 8 of 10 cores."""
    await short.start()
    for name in "abc":
        short.add_pod(name)
    await short.minutes(3, calculated=(calculated, 10_000))
    assert short.evicted == evicted


@pytest.mark.parametrize(("seconds_slow", "evicted"), [(60, ["a"]), (61, [])])
async def test_the_reports_of_a_wrong_clock_evict_nothing(short, seconds_slow, evicted):
    short.server.now -= HOUR  # the node is older than its reports
    await short.start()
    short.server.now += HOUR
    for name in "abc":
        short.add_pod(name)
    for _ in range(3):
        written = [{"manager": "koordlet", "subresource": "status", "time": stamp(short.world.now)}]
        short.server.patch("nodemetrics", "n1", {"metadata": {"managedFields": written}})
        await short.minutes(1, seconds_ago=seconds_slow)
    assert short.evicted == evicted
