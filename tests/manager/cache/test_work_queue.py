import asyncio
import contextlib
import random

import pytest

from apiserver_client import backoff, errors
from manager.cache.work_queue import Lane, WorkQueue

BURST = backoff.Backoff(first_seconds=0.001, longest_seconds=0.001)


@contextlib.asynccontextmanager
async def working(work, workers=2, delays=BURST, **more):
    queue = WorkQueue(work, workers=workers, delays=delays, **more)
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


async def settled():
    """Give every other task of the loop many turns: what needs no time has happened then."""
    for _ in range(100):
        await asyncio.sleep(0)


async def test_a_name_added_many_times_is_reconciled_once():
    done = []

    async def work(name):
        done.append(name)

    async with working(work) as queue:
        for name in ("a", "a", "b", "a"):
            queue.add(name)
        await until(lambda: len(done) == 2)
        await settled()
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


@pytest.mark.parametrize("seed", range(5))
async def test_no_name_is_left_waiting_whatever_the_order_of_work_and_additions(seed):
    chance = random.Random(seed)
    newest, seen = {}, {}

    async def work(name):
        seen[name] = newest[name]
        for _ in range(chance.randrange(4)):
            await asyncio.sleep(0)

    async with working(work, workers=3, is_urgent=lambda _: chance.random() < 0.3) as queue:
        for number in range(500):
            name = f"n{chance.randrange(8)}"
            newest[name] = number
            queue.add(name)
            for _ in range(chance.randrange(3)):
                await asyncio.sleep(0)
        await until(lambda: seen == newest and len(queue._idle) == 3)


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
        queue.add_after("d", 0.001)
        queue.add_after("d", 3600)
        queue.add_after("c", 0.01)
        await until(lambda: "c" in done)
    assert done == ["a", "c"]


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
        assert sum(queue.depth(lane) for lane in Lane) == 101
        gate.set()
        await until(lambda: len(done) == 102)
    assert done[:4] == ["running", "increase-50", "withdrawal", "increase-0"]
    assert len(done) == len(set(done)) == 102


async def test_every_name_gives_way_to_the_other_tasks_of_the_loop():
    """A reconcile without a request suspends nowhere, so 5,000 of them in a row would stop watches and heartbeat."""
    turns, most_between_turns, since_turn, done = 0, 0, 0, 0

    async def other_task():
        nonlocal turns, since_turn
        while True:
            turns, since_turn = turns + 1, 0
            await asyncio.sleep(0)

    def step(_name):
        nonlocal since_turn, most_between_turns
        since_turn += 1
        most_between_turns = max(most_between_turns, since_turn)
        return False

    async def work(name):
        nonlocal done
        step(name)
        done += 1

    other = asyncio.create_task(other_task())
    async with working(work, workers=8, is_urgent=step) as queue:
        for number in range(5000):
            queue.add(f"node-{number}")
        assert since_turn == 0, "adding a name computes nothing"
        await until(lambda: done == 5000)
    other.cancel()
    assert turns >= 2 * 5000 / 8
    assert most_between_turns <= 2 * 8


class Refused:
    """Work that the apiserver refuses, and the number of its requests."""

    def __init__(self, status=429, retry_after=""):
        self.requests = 0
        self._status, self._retry_after = status, retry_after

    async def __call__(self, _name):
        self.requests += 1
        call = errors.Call("PATCH", "/api/v1/nodes/n1/status", "patch", "nodes/status")
        raise errors.refusal(call, self._status, b"{}", self._retry_after)


@pytest.mark.parametrize("urgent", [False, True])
@pytest.mark.parametrize(("status", "retry_after"), [(429, "30"), (503, "30"), (422, "")])
async def test_events_do_not_end_a_backoff(status, retry_after, urgent):
    work, delays = Refused(status, retry_after), backoff.Backoff(first_seconds=30)
    async with working(work, workers=8, is_urgent=lambda _: urgent, delays=delays) as queue:
        for _ in range(100):
            queue.add("n1")
            for _ in range(5):
                await asyncio.sleep(0)
    assert work.requests == 1


async def test_no_answer_stops_a_node_for_longer_than_five_minutes():
    work = Refused(retry_after=str(10**9))
    async with working(work) as queue:
        queue.add("n1")
        await until(lambda: work.requests)
        await asyncio.sleep(0)
        [timer] = queue._retries.values()
        assert timer.when() <= asyncio.get_running_loop().time() + 300


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
        await settled()
        gate.set()
    assert most == 3
