"""Tasks that run until the stop event."""

from __future__ import annotations

import asyncio

import pytest

from component_base import tasks


class Worker:
    """Run without end, and record how it was ended."""

    def __init__(self) -> None:
        self.began = asyncio.Event()
        self.was_cancelled = False

    async def work(self) -> None:
        self.began.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.was_cancelled = True
            raise


async def broken() -> None:
    raise OSError("the disk is gone")


async def test_runs_until_the_stop_event() -> None:
    stop, workers = asyncio.Event(), [Worker(), Worker()]
    running = asyncio.create_task(tasks.run([each.work() for each in workers], stop))
    for each in workers:
        await each.began.wait()
    assert not running.done()
    stop.set()
    await running
    assert [each.was_cancelled for each in workers] == [True, True]


async def test_a_failed_task_ends_the_others_and_its_error_is_raised() -> None:
    worker = Worker()
    with pytest.raises(OSError, match="the disk is gone"):
        await tasks.run([worker.work(), broken()], asyncio.Event())
    assert worker.was_cancelled
