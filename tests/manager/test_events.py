import datetime as dt

from apiserver_client import resources
from apiserver_client.cluster_events import Subject
from manager.events import BURST, PER_SECOND, EventRecorder, TokenBucket
from tests.fakes import apiserver

NOON = dt.datetime(2026, 11, 21, 12, tzinfo=dt.UTC)
CONFIG_MAP = Subject(resources.CONFIG_MAPS, "slo-controller-config", "u", namespace="koordinator-system")


def after(seconds):
    return NOON + dt.timedelta(seconds=seconds)


def test_a_burst_is_bounded_and_refilled_with_time():
    allowance = TokenBucket()
    assert sum(allowance.take(NOON) for _ in range(2 * BURST)) == BURST
    assert sum(allowance.take(after(2)) for _ in range(2 * BURST)) == 2 * PER_SECOND
    assert sum(allowance.take(after(3600)) for _ in range(2 * BURST)) == BURST


def test_a_clock_that_is_set_back_refills_nothing():
    allowance = TokenBucket()
    while allowance.take(NOON):
        pass
    assert not allowance.take(after(-60))


async def test_events_of_all_nodes_at_once_are_bounded_and_counted_and_the_config_maps_still_posted(world):
    recorder = EventRecorder(world.config._api, world.telemetry, world.clock)
    for number in range(BURST + 5):
        await recorder.event(Subject(resources.NODES, f"n{number}", f"u{number}"), "Normal", "Reason", "text")
    await recorder.event(CONFIG_MAP, "Warning", "Reason", "text")
    kinds = [item["involvedObject"]["kind"] for item in world.server.all("events")]
    assert (kinds.count("Node"), kinds.count("ConfigMap")) == (BURST, 1)
    assert world.telemetry.registry.get_sample_value("koord_manager_kubernetes_events_lost_total") == 5


async def test_the_same_event_again_is_counted(world):
    recorder = EventRecorder(world.config._api, world.telemetry, world.clock)
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
