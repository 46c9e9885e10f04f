"""A name that becomes urgent while it waits."""

import asyncio

from manager.cache.work_queue import Lane
from tests.manager.cache.test_work_queue import settled, until, working


async def test_it_is_reconciled_once_and_before_all_others():
    done, urgent, gate = [], set(), asyncio.Event()

    async def work(name):
        await gate.wait()
        done.append(name)

    async with working(work, workers=1, is_urgent=urgent.__contains__) as queue:
        for name in ("running", "a", "b", "c"):
            queue.add(name)
        await until(lambda: queue.depth(Lane.NORMAL) == 3)
        urgent.add("b")
        queue.add("b")
        gate.set()
        await until(lambda: len(done) == 4)
        await settled()
        assert [queue.depth(lane) for lane in Lane] == [0] * len(Lane)
    assert done == ["running", "b", "a", "c"]
