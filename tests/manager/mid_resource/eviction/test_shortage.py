"""What one report shows: shortages, and that a node is calm."""

import dataclasses
import datetime as dt

import pytest

from api_types import names
from manager.mid_resource.decision import FUTURE_TOLERANCE
from manager.mid_resource.eviction import policy, shortage
from manager.mid_resource.eviction.shortage import Observation, Trigger
from manager.slo_config import strategy

POLICY = dataclasses.replace(
    policy.eviction_policy(strategy.unconfigured()), readmit_percent=125, memory_threshold_percent=80
)
WITHOUT_A_THRESHOLD = dataclasses.replace(POLICY, memory_threshold_percent=None)


def seen(calculated=(1250, 125), **more):
    """Return a report of a node with 1,000 bytes, whose Mid pods request 1,000 milli-cores and 100 bytes."""
    return Observation(
        sample=dt.datetime(2026, 11, 21, 12, tzinfo=dt.UTC),
        calculated=dict(zip(names.MID_RESOURCES, calculated, strict=True)),
        allocated={names.MID_CPU: 1000, names.MID_MEMORY: 100},
        memory_capacity=1000,
        **more,
    )


@pytest.mark.parametrize(("used", "calm"), [(None, True), (0, True), (639, True), (640, False), (1000, False)])
def test_a_node_that_its_memory_closed_is_calm_below_the_threshold_by_the_same_share(used, calm):
    assert seen(memory_used=used).is_calm(POLICY, Trigger.NODE_MEMORY) is calm
    assert seen(memory_used=used).is_calm(WITHOUT_A_THRESHOLD, Trigger.NODE_MEMORY)


@pytest.mark.parametrize(
    ("before", "cause", "recorded"),
    [
        ("", "MidCPUShort", "MidCPUShort"),
        ("MidCPUShort", "NodeMemoryHigh", "NodeMemoryHigh"),
        ("NodeMemoryHigh", "MidCPUShort", "NodeMemoryHigh"),
        ("NodeMemoryHigh", "MidMemoryShort", "NodeMemoryHigh"),
        ("NodeMemoryHigh", "MidOnlyNode", "MidOnlyNode"),
        ("NodeMemoryHigh", "Drain", "Drain"),
        ("MidOnlyNode", "NodeMemoryHigh", "MidOnlyNode"),
    ],
)
def test_the_cause_that_is_recorded_is_the_one_that_decides_when_the_node_opens(before, cause, recorded):
    assert shortage.recorded(before, cause) == recorded


@pytest.mark.parametrize(
    ("used", "of_mid", "high"), [(800, 1000, True), (799, 1000, False), (None, 1000, False), (1000, None, False)]
)
def test_memory_is_high_from_the_threshold_on_where_both_usages_are_known(used, of_mid, high):
    found = seen(memory_used=used, mid_memory_used=of_mid)
    assert (Trigger.NODE_MEMORY in found.shortages(POLICY)) is high
    assert Trigger.NODE_MEMORY not in found.shortages(WITHOUT_A_THRESHOLD)


NOON = dt.datetime(2026, 11, 21, 12, tzinfo=dt.UTC)
SEEN = Observation(NOON, {names.MID_CPU: 0}, {names.MID_CPU: 1000}, 1)
SECOND, HOUR = dt.timedelta(seconds=1), dt.timedelta(hours=1)


def stamp(time):
    return f"{time:%Y-%m-%dT%H:%M:%SZ}"


def fault(*, sample=NOON, now=NOON, cold_start=HOUR, **status):
    read = shortage.FullReport(status=shortage.FullStatus(update_time=stamp(sample), **status))
    return shortage.fault(read, SEEN, cold_start, now)


async def evicted_with(short, node_status=None, **classes):
    """Return the pods that are evicted where the classes of pods of a node of 10 cores and 20k use so much."""
    await short.start()
    short.server.patch("nodes", "n1", {"status": node_status or {}})
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


@pytest.mark.parametrize(
    ("status", "evicted"),
    [
        ({"nodeInfo": {"swap": {"capacity": 10_000}}}, ["a"]),
        ({"nodeInfo": {}}, []),
        ({"capacity": {"memory": "40k", "hugepages-2Mi": "15k", "hugepages-1Gi": "5k"}}, []),
    ],
)
async def test_memory_in_use_is_bounded_by_memory_and_swap_without_huge_pages(short, status, evicted):
    assert await evicted_with(short, status, prod={"memory": "25k"}) == evicted


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
