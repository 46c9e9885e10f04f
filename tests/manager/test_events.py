import datetime as dt

from apiserver_client import resources
from apiserver_client.cluster_events import Subject
from manager.events import AT_ONCE, PER_SECOND, EventRecorder, TokenBucket

NOON = dt.datetime(2026, 11, 21, 12, tzinfo=dt.UTC)
CONFIG_MAP = Subject(resources.CONFIG_MAPS, "slo-controller-config", "u", namespace="koordinator-system")


def after(seconds):
    return NOON + dt.timedelta(seconds=seconds)


def test_a_burst_is_bounded_and_comes_back_with_time():
    allowance = TokenBucket()
    assert sum(allowance.take(NOON) for _ in range(2 * AT_ONCE)) == AT_ONCE
    assert sum(allowance.take(after(2)) for _ in range(2 * AT_ONCE)) == 2 * PER_SECOND
    assert sum(allowance.take(after(3600)) for _ in range(2 * AT_ONCE)) == AT_ONCE


def test_a_clock_that_goes_back_gives_nothing():
    allowance = TokenBucket()
    while allowance.take(NOON):
        pass
    assert not allowance.take(after(-60))


async def test_events_of_all_nodes_at_once_are_bounded_and_counted_and_the_config_maps_still_posted(world):
    announcer = EventRecorder(world.config._api, world.telemetry, world.clock)
    for number in range(AT_ONCE + 5):
        await announcer.say(Subject(resources.NODES, f"n{number}", f"u{number}"), "Normal", "Reason", "text")
    await announcer.say(CONFIG_MAP, "Warning", "Reason", "text")
    kinds = [item["involvedObject"]["kind"] for item in world.server.all("events")]
    assert (kinds.count("Node"), kinds.count("ConfigMap")) == (AT_ONCE, 1)
    assert world.telemetry.registry.get_sample_value("koord_manager_kubernetes_events_lost_total") == 5


async def test_what_is_said_again_is_counted_up(world):
    announcer = EventRecorder(world.config._api, world.telemetry, world.clock)
    for _ in range(3):
        await announcer.say(CONFIG_MAP, "Warning", "Reason", "text")
    [item] = world.server.all("events")
    assert (item["count"], item["type"], item["reportingComponent"]) == (3, "Warning", "koord-manager")
