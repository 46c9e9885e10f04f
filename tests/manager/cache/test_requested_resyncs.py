"""A resync that was requested before its period is over."""

import asyncio

import pytest

from apiserver_client import session
from manager.cache.resync import GRACE_SECONDS
from tests.manager.cache.test_resync import ResyncRun, in_step


@pytest.fixture
async def api(world):
    async with session.connect(world.server.connection(), user_agent="test/1") as opened:
        yield opened


async def test_a_request_is_answered_by_one_resync(world, api):
    await in_step(world)
    run = ResyncRun(world, api)
    slept = asyncio.Queue()

    async def sleep(seconds):
        slept.put_nowait(seconds)
        if seconds != GRACE_SECONDS:
            await asyncio.Event().wait()

    run.subject._sleep = sleep
    task = asyncio.create_task(run.subject.run(300))
    assert await slept.get() == 300
    run.subject.request()
    assert [await slept.get() for _ in range(2)] == [GRACE_SECONDS, 300]
    for _ in range(20):
        await asyncio.sleep(0)
    assert slept.empty()
    assert run.configs == 1
    task.cancel()
