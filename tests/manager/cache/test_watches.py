"""Restarts of a watch that the test ends."""

import asyncio

import pytest

from manager.cache.watches import Watch


class Run:
    """A watch, and its starts."""

    def __init__(self):
        self.starts = []
        self.subject = Watch(self.follow)
        self.task = asyncio.create_task(self.subject.run())

    async def follow(self):
        end = asyncio.get_running_loop().create_future()
        self.starts.append(end)
        await end

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


async def test_a_restart_cancels_the_running_watch(run):
    run.subject.restart()
    await run.started(2)
    assert run.starts[0].cancelled()
    assert not run.starts[1].done()


async def test_raises_what_has_ended_the_watch(run):
    run.starts[0].set_exception(KeyError("a bug"))
    with pytest.raises(KeyError, match="a bug"):
        await run.task


async def test_a_cancelled_watch_leaves_no_task(run):
    run.task.cancel()
    await asyncio.gather(run.task, return_exceptions=True)
    assert run.starts[0].cancelled()
    assert asyncio.all_tasks() == {asyncio.current_task()}
