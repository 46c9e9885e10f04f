import asyncio
import contextlib

from apiserver_client import backoff, errors
from manager.cache.work_queue import Lane, WorkQueue

AT_ONCE = backoff.Backoff(first_seconds=0.001, longest_seconds=0.001)


@contextlib.asynccontextmanager
async def working(work, workers=2, **more):
    queue = WorkQueue(work, workers=workers, pauses=AT_ONCE, **more)
    task = asyncio.create_task(queue.run())
    try:
        yield queue
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def until(condition):
    async with asyncio.timeout(5):
        while not condition():
            await asyncio.sleep(0.001)


async def test_a_name_marked_many_times_before_is_worked_on_once():
    done = []

    async def work(name):
        done.append(name)

    async with working(work) as queue:
        for name in ("a", "a", "b", "a"):
            queue.mark(name)
        await until(lambda: len(done) == 2)
        await asyncio.sleep(0.01)
    assert sorted(done) == ["a", "b"]


async def test_a_name_is_never_worked_on_twice_at_the_same_time_and_again_when_marked_meanwhile():
    running, most, runs = 0, 0, 0
    gate = asyncio.Event()

    async def work(_name):
        nonlocal running, most, runs
        running += 1
        most = max(most, running)
        runs += 1
        await gate.wait()
        running -= 1

    async with working(work, workers=4) as queue:
        queue.mark("a")
        await until(lambda: runs == 1)
        queue.mark("a")
        queue.mark("a")
        gate.set()
        await until(lambda: runs == 2)
    assert (most, runs) == (1, 2)


async def test_no_more_names_than_workers_are_worked_on_at_once():
    running, most = 0, 0
    gate = asyncio.Event()

    async def work(_name):
        nonlocal running, most
        running += 1
        most = max(most, running)
        await gate.wait()
        running -= 1

    async with working(work, workers=3) as queue:
        for number in range(10):
            queue.mark(str(number))
        await until(lambda: running == 3)
        await asyncio.sleep(0.01)
        gate.set()
    assert most == 3


async def test_what_fails_is_tried_again_whatever_the_failure():
    failures = [errors.Unreachable("away"), KeyError("a bug")]
    done = asyncio.Event()

    async def work(_name):
        if failures:
            raise failures.pop(0)
        done.set()

    async with working(work) as queue:
        queue.mark("a")
        async with asyncio.timeout(5):
            await done.wait()
    assert failures == []


async def test_a_later_look_replaces_an_earlier_wish_for_one():
    done = []

    async def work(name):
        done.append(name)

    async with working(work) as queue:
        queue.mark_later("a", 3600)
        queue.mark_later("a", 0.001)
        await until(lambda: done)
        queue.mark_later("b", 0.001)
        queue.forget_timer("b")
        await asyncio.sleep(0.01)
    assert done == ["a"]


async def test_what_is_urgent_overtakes_what_waits_and_also_what_was_marked_before_it_was_urgent():
    done, urgent = [], {"withdrawal"}
    gate = asyncio.Event()

    async def work(name):
        await gate.wait()
        done.append(name)

    async with working(work, workers=1, is_urgent=urgent.__contains__) as queue:
        queue.mark("running")
        await until(lambda: queue.depth(Lane.NORMAL) == 0)
        for number in range(100):
            queue.mark(f"increase-{number}")
        queue.mark("withdrawal")
        urgent.add("increase-50")
        queue.mark("increase-50")
        assert (queue.depth(Lane.URGENT), queue.depth(Lane.NORMAL)) == (2, 99)
        gate.set()
        await until(lambda: len(done) == 102)
    assert done[:4] == ["running", "withdrawal", "increase-50", "increase-0"]
    assert len(done) == len(set(done)) == 102
