"""Resync of the store, over a cluster in memory."""

import asyncio

import pytest

from apiserver_client import errors, session
from manager.cache.resync import GRACE_SECONDS, Resync
from manager.cache.watch_health import WatchAges
from manager.metrics.telemetry import WATCHED
from manager.slo_config import controller as slo_config
from tests.fakes import cluster


class ResyncRun:
    def __init__(self, world, api, on_sleep=lambda: None):
        self.added, self.slept, self.ages = [], [], WatchAges(WATCHED, lambda: 0.0)
        self.on_sleep = on_sleep
        self.configs = self.restarts = 0
        self.subject = Resync(
            api, cache=world.cache, settings=world.settings, add=self.added.append, add_config=self.add_config,
            ages=self.ages, telemetry=world.telemetry, sleep=self.sleep,
        )  # fmt: skip
        self.subject.restart_watches = self.restart

    def add_config(self):
        self.configs += 1

    def restart(self):
        self.restarts += 1

    async def sleep(self, seconds):
        self.slept.append(seconds)
        self.on_sleep()


@pytest.fixture
async def api(world):
    async with session.connect(world.server.connection(), user_agent="test/1") as opened:
        yield opened


def missed(world, resource):
    return world.telemetry.registry.get_sample_value("koord_manager_missed_changes_total", {"resource": resource})


async def in_step(world):
    world.configure({"enable": True})
    await world.config.start()
    for name in ("n1", "n2"):
        world.add_node(name)
        await world.settle(name)
    world.sync_cache()


async def test_requeues_every_node_and_writes_nothing_where_nothing_was_missed(world, api):
    await in_step(world)
    requests, writes = len(world.server.requests), len(world.server.writes)
    run = ResyncRun(world, api)
    await run.subject.once()
    assert run.added == ["n1", "n2"]
    assert run.slept == []
    paths = [each.path.rsplit("/", 1)[-1] for each in world.server.requests[requests:]]
    assert paths == ["nodes", "nodemetrics", "configmaps"]
    assert (run.configs, run.restarts) == (1, 0)
    assert len(world.server.writes) == writes
    assert run.ages.silent() is None


async def test_finds_and_reports_changes_that_no_watch_delivered(world, api):
    await in_step(world)
    world.server.patch("nodes", "n1", {"metadata": {"labels": {"pool": "b"}}})
    world.server.remove("nodes", "n2")
    world.add_node("n3")
    run = ResyncRun(world, api)
    await run.subject.once()
    assert world.cache.nodes.get("n1").metadata.labels == {"pool": "b"}
    assert sorted(world.cache.nodes.names()) == ["n1", "n3"]
    assert world.cache.node_metrics.names() == ["n1"]
    assert set(run.added) == {"n1", "n2", "n3"}
    assert run.slept == [GRACE_SECONDS, GRACE_SECONDS]
    assert (missed(world, "nodes"), missed(world, "nodemetrics")) == (3, 1)
    assert run.ages.silent() is not None


async def test_repairs_the_other_objects_beside_one_that_cannot_be_decoded(world, api):
    await in_step(world)
    world.server.patch("nodemetrics", "n1", {"status": {"updateTime": 5}})
    world.server.patch("nodemetrics", "n2", {"status": {"updateTime": "2026-11-21T11:59:00Z"}})
    await ResyncRun(world, api).subject.once()
    assert world.cache.node_metrics.get("n1").status is None
    assert world.cache.node_metrics.get("n2").status.update_time == "2026-11-21T11:59:00Z"
    assert missed(world, "nodemetrics") == 1


async def test_a_change_that_the_watch_delivers_in_time_is_not_missed(world, api):
    await in_step(world)
    world.server.remove("nodes", "n2")
    run = ResyncRun(world, api, on_sleep=world.sync_cache)
    await run.subject.once()
    assert (missed(world, "nodes"), missed(world, "nodemetrics")) == (0, 0)
    assert run.ages.silent() is None


async def test_applies_an_edit_of_the_configuration_that_no_watch_delivered(world, api):
    await in_step(world)
    world.configure({"enable": True, "midCPUThresholdPercent": 20})
    await ResyncRun(world, api).subject.once()
    world.config.decide()
    assert world.config.strategies.merged({}, {}).strategy.mid_cpu_threshold_percent == 20


async def test_ignores_an_older_state_of_the_configuration(world, api):
    await in_step(world)
    old = await slo_config.read(api, world.settings.namespace, world.settings.config_map)
    world.configure({"enable": True, "midCPUThresholdPercent": 20})
    await world.config.refresh()
    world.cache.config_maps.update(old)
    world.config.decide()
    assert world.config.strategies.merged({}, {}).strategy.mid_cpu_threshold_percent == 20


async def test_a_failed_resync_is_counted_and_retried(world, api):
    await in_step(world)
    world.server.refuse["GET", "nodemetrics"] = cluster.Refusal(500, "InternalError")
    rounds = asyncio.Queue()
    run = ResyncRun(world, api, on_sleep=lambda: rounds.put_nowait(None))
    task = asyncio.create_task(run.subject.run(300))
    for _ in range(3):
        await rounds.get()
    task.cancel()
    value = world.telemetry.registry.get_sample_value
    assert value("koord_manager_resyncs_total", {"result": "error"}) >= 1
    assert value("koord_manager_resyncs_total", {"result": "ok"}) == 0
    assert set(run.slept) == {300}


@pytest.mark.parametrize("plural", ["nodes", "nodemetrics", "configmaps"])
async def test_an_answer_that_an_object_is_gone_removes_no_successor_of_its_name(world, api, plural):
    await in_step(world)
    store = {
        "nodes": world.cache.nodes, "nodemetrics": world.cache.node_metrics, "configmaps": world.cache.config_maps,
    }[plural]  # fmt: skip
    [name] = [each for each in store.names() if each != "n2"]
    namespace = world.settings.namespace if plural == "configmaps" else ""
    old = world.server.get(plural, name, namespace)
    world.server.remove(plural, name, namespace)
    successor = {"metadata": {"name": name}, **{key: old[key] for key in ("data", "status") if key in old}}
    run = ResyncRun(world, api)
    answer = api.send

    async def answered_late(call, **given):
        try:
            return await answer(call, **given)
        except errors.NotFound:  # it travels while the watch brings a successor
            if f"/{plural}/" in call.path:
                store.update(store.decode(world.server.add(plural, successor, namespace)))
            raise

    api.send = answered_late
    await run.subject.once()
    assert store.get(name).metadata.uid != old["metadata"]["uid"]


async def test_an_answer_that_the_deletion_overtakes_brings_no_object_back(world, api):
    await in_step(world)
    world.server.patch("nodes", "n2", {"metadata": {"labels": {"a": "new"}}})
    answer = api.send

    async def overtaken(call, **given):
        answered = await answer(call, **given)
        if call.path.endswith("/nodes/n2"):
            world.server.remove("nodes", "n2")
            world.cache.nodes.remove("n2")
        return answered

    api.send = overtaken
    await ResyncRun(world, api).subject.once()
    assert world.cache.nodes.get("n2") is None
    assert missed(world, "nodes") == 0


async def test_one_kind_that_cannot_be_listed_holds_back_no_other(world, api):
    await in_step(world)
    world.server.refuse["GET", "nodemetrics"] = cluster.Refusal(500, "InternalError")
    world.server.patch("nodes", "n1", {"metadata": {"labels": {"pool": "b"}}})
    run = ResyncRun(world, api)
    with pytest.raises(errors.ServerError):
        await run.subject.once()
    assert world.cache.nodes.get("n1").metadata.labels == {"pool": "b"}
    assert (set(run.added), run.configs) == ({"n1", "n2"}, 1)


async def test_a_list_of_an_older_version_replaces_what_is_stored(world, api):
    world.server._version = 1_000_000
    await in_step(world)
    world.server.remove("nodes", "n2")
    world.server.restore(1_000)
    run = ResyncRun(world, api)
    await run.subject.once()
    assert (world.cache.nodes.names(), world.cache.node_metrics.names()) == (["n1"], ["n1"])
    assert run.restarts == 3  # once for each kind
    assert set(run.added) == {"n1", "n2"}
    world.server.patch("nodemetrics", "n1", {"status": {"updateTime": "2026-11-21T11:59:00Z"}})
    world.configure({"enable": False})
    await run.subject.once()
    world.config.decide()
    assert world.cache.node_metrics.get("n1").status.update_time == "2026-11-21T11:59:00Z"
    assert world.config.strategies.configuration.cluster.enable is False
    assert run.restarts == 3


async def test_a_list_that_a_watch_overtakes_replaces_nothing(world, api):
    await in_step(world)
    run = ResyncRun(world, api)
    receive = api.receive

    async def overtaken(call, **given):
        async for piece in receive(call, **given):
            yield piece
        world.report("n1", seconds_ago=1)
        world.sync_cache()

    api.receive = overtaken
    await run.subject.once()
    assert run.restarts == 0
    assert world.cache.node_metrics.get("n1").status.update_time is not None
