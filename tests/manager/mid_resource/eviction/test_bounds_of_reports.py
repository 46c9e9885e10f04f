"""Reports at the bounds of what an eviction may be based on."""

import datetime as dt

import pytest

from api_types import names
from manager.mid_resource.eviction import shortage
from manager.mid_resource.eviction.shortage import Observation

NOON = dt.datetime(2026, 11, 21, 12, tzinfo=dt.UTC)
SEEN = Observation(NOON, {names.MID_CPU: 0}, {names.MID_CPU: 1000}, 1)
SECOND, HOUR = dt.timedelta(seconds=1), dt.timedelta(hours=1)


def stamp(time):
    return f"{time:%Y-%m-%dT%H:%M:%SZ}"


def fault(*, sample=NOON, now=NOON, cold_start=HOUR, **status):
    read = shortage.FullReport(status=shortage.FullStatus(update_time=stamp(sample), **status))
    return shortage.fault(read, SEEN, cold_start, now)


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
        {"prod": {"cpu": "10"}, "system": {"cpu": "1001m"}},
        {"prod": {"memory": "21900"}, "batchAndFree": {"memory": "101"}},
    ],
)
async def test_on_a_usage_that_no_node_can_have_no_eviction_is_based(short, usage):
    assert await evicted_with(short, **usage) == []


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
