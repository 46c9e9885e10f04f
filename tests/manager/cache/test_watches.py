"""Restarts of a watch that the test ends."""

import asyncio

import pytest

from manager.cache.kopf_watches import CannotFollow
from manager.cache.watches import Watch


class Run:
    """A watch; `sleep` only lets other tasks run."""

    def __init__(self):
        self.starts, self.naps = [], []
        self.subject = Watch(self.follow, sleep=self.sleep)
        self.task = asyncio.create_task(self.subject.run())

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
async def run():
    made = Run()
    await made.started(1)
    yield made
    made.task.cancel()
    await asyncio.gather(made.task, return_exceptions=True)


async def test_begins_again_where_it_has_ended_and_waits_longer_each_time(run):
    for times in range(1, 5):
        run.starts[-1].set_exception(CannotFollow("a list expired"))
        await run.started(times + 1)
    assert len(run.naps) == 4
    assert run.naps == sorted(run.naps)
    assert run.naps[0] > 0


async def test_a_restart_cancels_the_running_watch(run):
    run.subject.restart()
    await run.started(2)
    assert run.starts[0].cancelled()
    assert not run.starts[1].done()
    assert run.naps == []


async def test_raises_what_a_new_start_does_not_mend(run):
    run.starts[0].set_exception(KeyError("a bug"))
    with pytest.raises(KeyError, match="a bug"):
        await run.task


async def test_a_cancelled_watch_leaves_no_task(run):
    run.task.cancel()
    await asyncio.gather(run.task, return_exceptions=True)
    assert run.starts[0].cancelled()
    assert asyncio.all_tasks() == {asyncio.current_task()}
