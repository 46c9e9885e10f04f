import asyncio

import pytest

from apiserver_client import resources
from apiserver_client.cluster_events import Subject
from manager.events.queued_recorder import MOST_WAITING, QueuedRecorder
from tests.fakes import cluster

ABOUT = Subject(resources.NODES, "n1", "uid")


@pytest.fixture
def recorder(world):
    return QueuedRecorder(world.api, world.telemetry, world.clock)


def lost(world):
    return world.telemetry.registry.get_sample_value("koord_manager_kubernetes_events_lost_total")


async def test_an_event_is_posted_later_and_nothing_waits_for_it(world, recorder):
    world.server.hanging.add(("POST", "events"))
    running = asyncio.create_task(recorder.run())
    for number in range(5):
        await recorder.event(ABOUT, "Warning", "Reason", f"text {number}")
    async with asyncio.timeout(20):
        while not any(each.method == "POST" for each in world.server.requests):
            await asyncio.sleep(0.001)
    assert world.events() == []
    running.cancel()
    world.server.hanging.clear()
    await recorder.drain()
    assert len(world.events()) == 4  # the first one was on its way


async def test_events_beyond_the_bound_are_counted_as_lost(world, recorder):
    for number in range(MOST_WAITING + 3):
        await recorder.event(ABOUT, "Normal", "Reason", f"text {number}")
    assert lost(world) == 3


async def test_goes_on_after_an_event_that_is_refused(world, recorder):
    world.server.refuse["POST", "events"] = cluster.Refusal(403, "Forbidden", "x")
    await recorder.event(ABOUT, "Normal", "Reason", "first")
    await recorder.drain()
    world.server.refuse.clear()
    await recorder.event(ABOUT, "Normal", "Reason", "second")
    await recorder.drain()
    assert (lost(world), len(world.events())) == (1, 1)
