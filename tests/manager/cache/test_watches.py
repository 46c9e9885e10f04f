"""Restarts of the watches, over a cluster in memory, without kopf."""

import asyncio

import pytest

from manager.cache import watches
from manager.cache.kopf_watches import CannotFollow
from manager.cache.store import Availability
from manager.cache.watches import Watches
from tests.fakes import cluster


class Run:
    """Watches whose kopf the test ends; `sleep` only lets other tasks run."""

    def __init__(self, world):
        self.starts, self.problems, self.requeued, self.naps = [], [], [], []
        self.subject = Watches(
            world.api, cache=world.cache, follow=self.follow, requeue=self.requeued.append,
            show_problem=self.problems.append, sleep=self.sleep,
        )  # fmt: skip

    async def follow(self):
        end = asyncio.get_running_loop().create_future()
        self.starts.append(end)
        await end

    async def sleep(self, seconds):
        self.naps.append(seconds)
        await asyncio.sleep(0)

    async def started(self, times):
        async with asyncio.timeout(10):
            while len(self.starts) < times:
                await asyncio.sleep(0.001)


@pytest.fixture
async def run(world):
    made = Run(world)
    world.add_node()
    world.server.add("nodemetrics", {"metadata": {"name": "n1"}})
    world.sync_cache()
    task = asyncio.create_task(made.subject.run())
    made.task = task
    await made.started(1)
    yield made
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_begins_again_with_a_list_where_kopf_ends_and_waits_longer_each_time(world, run):
    for times in range(1, 5):
        run.starts[-1].set_exception(CannotFollow("a list expired"))
        await run.started(times + 1)
    assert run.naps == sorted(run.naps)
    assert run.naps[0] > 0
    assert run.problems == [None] * 4


async def test_a_restart_cancels_the_running_watches(run):
    run.subject.restart()
    await run.started(2)
    assert run.starts[0].cancelled()
    assert not run.starts[1].done()
    assert run.naps == []


async def test_raises_what_a_new_start_does_not_mend(run):
    run.starts[0].set_exception(KeyError("a bug"))
    with pytest.raises(KeyError, match="a bug"):
        await run.task


async def test_without_the_crd_there_are_no_node_metrics_until_it_returns(world, run):
    world.server.stop_serving("nodemetrics")
    run.starts[0].set_exception(CannotFollow("404"))
    await run.started(2)
    assert world.cache.node_metrics_are is Availability.NOT_SERVED
    assert world.cache.node_metrics.names() == []
    assert run.requeued == ["n1"]
    assert "install its CRD" in run.problems[-1]
    world.server.serve_again("nodemetrics")
    await run.started(3)
    assert watches.CHECK_SECONDS in run.naps
    assert world.cache.node_metrics_are is Availability.LISTED
    assert run.problems[-1] is None


async def test_a_list_that_is_refused_takes_away_nothing_that_is_known(world, run):
    world.server.refuse["GET", "nodemetrics"] = cluster.Refusal(403, "Forbidden")
    run.subject.restart()
    await run.started(2)
    assert world.cache.node_metrics.names() == ["n1"]
    assert world.cache.node_metrics_are is Availability.LISTED
    assert "grant it by RBAC" in run.problems[-1]
    world.server.refuse.clear()
    await run.started(3)
    assert run.problems[-1] is None
