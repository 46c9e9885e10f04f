import asyncio
import contextlib

from apiserver_client import backoff, errors
from manager.cache.work_queue import Lane, WorkQueue

BURST = backoff.Backoff(first_seconds=0.001, longest_seconds=0.001)


@contextlib.asynccontextmanager
async def working(work, workers=2, **more):
    queue = WorkQueue(work, workers=workers, delays=BURST, **more)
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


async def test_a_name_added_many_times_is_reconciled_once():
    done = []

    async def work(name):
        done.append(name)

    async with working(work) as queue:
        for name in ("a", "a", "b", "a"):
            queue.add(name)
        await until(lambda: len(done) == 2)
        await asyncio.sleep(0.01)
    assert sorted(done) == ["a", "b"]


async def test_one_worker_per_name_and_another_run_when_added_meanwhile():
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
        queue.add("a")
        await until(lambda: runs == 1)
        queue.add("a")
        queue.add("a")
        gate.set()
        await until(lambda: runs == 2)
    assert (most, runs) == (1, 2)


async def test_reconciles_at_most_as_many_names_as_workers_in_parallel():
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
            queue.add(str(number))
        await until(lambda: running == 3)
        await asyncio.sleep(0.01)
        gate.set()
    assert most == 3


async def test_retries_after_any_failure():
    failures = [errors.Unreachable("away"), KeyError("a bug")]
    done = asyncio.Event()

    async def work(_name):
        if failures:
            raise failures.pop(0)
        done.set()

    async with working(work) as queue:
        queue.add("a")
        async with asyncio.timeout(5):
            await done.wait()
    assert failures == []


async def test_a_later_delay_replaces_an_earlier_one():
    done = []

    async def work(name):
        done.append(name)

    async with working(work) as queue:
        queue.add_after("a", 3600)
        queue.add_after("a", 0.001)
        await until(lambda: done)
        queue.add_after("b", 0.001)
        queue.cancel("b")
        await asyncio.sleep(0.01)
    assert done == ["a"]


async def test_urgent_names_precede_others_even_if_added_before_they_were_urgent():
    done, urgent = [], {"withdrawal"}
    gate = asyncio.Event()

    async def work(name):
        await gate.wait()
        done.append(name)

    async with working(work, workers=1, is_urgent=urgent.__contains__) as queue:
        queue.add("running")
        await until(lambda: queue.depth(Lane.NORMAL) == 0)
        for number in range(100):
            queue.add(f"increase-{number}")
        queue.add("withdrawal")
        urgent.add("increase-50")
        queue.add("increase-50")
        assert (queue.depth(Lane.URGENT), queue.depth(Lane.NORMAL)) == (2, 99)
        gate.set()
        await until(lambda: len(done) == 102)
    assert done[:4] == ["running", "withdrawal", "increase-50", "increase-0"]
    assert len(done) == len(set(done)) == 102
