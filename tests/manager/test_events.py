import asyncio
import datetime as dt

import pytest

from apiserver_client import resources
from apiserver_client.cluster_events import Subject
from manager.events import BURST, MOST_WAITING, OBJECT_BURST, OBJECT_PER_SECOND, EventRecorder, QueuedRecorder
from tests.fakes import apiserver
from tests.manager.in_process import posted

NOON = dt.datetime(2026, 11, 21, 12, tzinfo=dt.UTC)
CONFIG_MAP = Subject(resources.CONFIG_MAPS, "slo-controller-config", "u", namespace="koordinator-system")


def after(seconds):
    return NOON + dt.timedelta(seconds=seconds)


async def test_events_of_all_nodes_at_once_are_bounded_and_counted_and_the_config_maps_still_posted(world):
    recorder = EventRecorder(world.config.api, world.telemetry, world.clock)
    for number in range(BURST + 5):
        await recorder.event(Subject(resources.NODES, f"n{number}", f"u{number}"), "Normal", "Reason", "text")
    await recorder.event(CONFIG_MAP, "Warning", "Reason", "text")
    kinds = [item["involvedObject"]["kind"] for item in world.server.all("events")]
    assert (kinds.count("Node"), kinds.count("ConfigMap")) == (BURST, 1)
    assert world.telemetry.registry.get_sample_value("koord_manager_kubernetes_events_lost_total") == 5


async def test_the_same_event_again_is_counted(world):
    recorder = EventRecorder(world.config.api, world.telemetry, world.clock)
    for _ in range(3):
        await recorder.event(CONFIG_MAP, "Warning", "Reason", "text")
    [item] = world.server.all("events")
    assert (item["count"], item["type"], item["reportingComponent"]) == (3, "Warning", "koord-manager")


async def test_while_the_apiserver_asks_to_wait_events_are_only_counted(world):
    now = NOON
    throttled = apiserver.status(429, "TooManyRequests", retry_after="30")
    async with apiserver.running() as server, server.session() as api:
        server.on("POST", "/api/v1/namespaces/koordinator-system/events", throttled, apiserver.Answer({}, 201))
        recorder = EventRecorder(api, world.telemetry, lambda: now)
        for seconds in (0, 29, 30):
            now = after(seconds)
            await recorder.event(CONFIG_MAP, "Warning", "Reason", "text")
    assert len(server.asked("POST")) == 2
    assert world.telemetry.registry.get_sample_value("koord_manager_kubernetes_events_lost_total") == 2


async def test_one_node_cannot_use_up_the_events_of_the_others_nor_the_log(world, caplog):
    recorder = EventRecorder(world.api, world.telemetry, world.clock)
    for uid in range(5 * BURST):  # a new UID each: recreating the node does not help
        await recorder.event(Subject(resources.NODES, "greedy", f"u{uid}"), "Warning", "Reason", f"text {uid}")
    assert len(world.server.all("events")) == OBJECT_BURST
    assert len(caplog.records) == OBJECT_BURST
    for number in range(BURST - OBJECT_BURST):
        await recorder.event(Subject(resources.NODES, f"n{number}", f"u{number}"), "Warning", "Reason", "text")
    assert len(world.server.all("events")) == BURST
    world.now += dt.timedelta(seconds=10 / OBJECT_PER_SECOND)
    for number in range(BURST):
        await recorder.event(Subject(resources.NODES, "greedy", ""), "Warning", "Reason", f"later {number}")
    assert len(world.server.all("events")) == BURST + 10


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
    await posted(recorder)
    assert len(world.events()) == 4  # the first one was on its way


async def test_events_beyond_the_bound_are_counted_as_lost(world, recorder):
    for number in range(MOST_WAITING + 3):
        await recorder.event(ABOUT, "Normal", "Reason", f"text {number}")
    assert lost(world) == 3
