"""What the evictor remembers of a node that it has just opened, and of recorded evictions."""

import json

import pytest

from tests.manager.evictions import ANNOTATION
from tests.manager.mid_resource.eviction.test_leaving_nodes import DISRUPTED, change


async def test_a_node_that_is_open_again_is_not_opened_each_round(short):
    await short.start()
    for name in "abc":
        short.add_pod(name)
    await short.minutes(3)
    assert len(short.evicted) == 1
    short.end_pods()
    await short.minutes(12, calculated=(8000, 16_000))
    assert short.annotation() is None
    before = len(short.server.writes)
    for _ in range(3):
        await short.round()
        short.pass_seconds(1)
    assert len(short.server.writes) == before


@pytest.mark.parametrize(
    ("trigger", "leaves", "of_leaving"),
    [("NodeLeaving", False, True), ("MidCPUShort", True, True), ("MidCPUShort", False, False)],
)
async def test_an_eviction_counts_to_one_of_two_rates(short, trigger, leaves, of_leaving):
    await short.start()
    time = "2026-11-21T12:00:00Z"
    record = json.dumps({"time": time, "since": time, "pod": "tenant/a", "trigger": trigger})
    await change(short, {"metadata": {"annotations": {ANNOTATION: record}}} | (DISRUPTED if leaves else {}))
    records = short.world.evictor._records
    found = {each: len(list(records.evictions(of_leaving=each, now=short.world.now))) for each in (True, False)}
    assert found == {of_leaving: 1, not of_leaving: 0}
