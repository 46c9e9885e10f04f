"""Names that need attention, each worked on by one worker at a time, with bounded concurrency.

A name that is marked while it is worked on is worked on again afterwards; marked many times before, once. Urgent names
overtake all others. A failure is tried again after a growing, jittered pause. Single-threaded: everything runs on one
event loop.
"""

from __future__ import annotations

import asyncio
import enum
import logging
import random
from collections import OrderedDict
from collections.abc import Awaitable, Callable

from apiserver_client import backoff, errors

log = logging.getLogger(__name__)

Work = Callable[[str], Awaitable[None]]


class Lane(enum.StrEnum):
    """The queues there are, each in order of arrival; the first of them goes first."""

    URGENT = "urgent"
    NORMAL = "normal"


class WorkQueue:
    """Keyed queue; `work` is called with a name and may raise, which means "again later".

    `is_urgent` is asked when a name is marked, not later: it sees what made somebody mark it.
    """

    def __init__(
        self,
        work: Work,
        *,
        workers: int,
        is_urgent: Callable[[str], bool] = lambda _: False,
        pauses: backoff.Backoff = backoff.DEFAULT,
    ) -> None:
        self._work = work
        self._workers = workers
        self._is_urgent = is_urgent
        self._pauses = pauses
        self._waiting: dict[Lane, OrderedDict[str, None]] = {lane: OrderedDict() for lane in Lane}
        self._busy: set[str] = set()
        self._again: set[str] = set()
        self._failures: dict[str, int] = {}
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._arrived = asyncio.Event()

    def depth(self, lane: Lane) -> int:
        """Names that wait in a lane."""
        return len(self._waiting[lane])

    def mark(self, name: str) -> None:
        """Have a name worked on as soon as a worker is free."""
        if name in self._busy:
            self._again.add(name)
        elif name not in self._waiting[Lane.URGENT]:
            lane = Lane.URGENT if self._is_urgent(name) else Lane.NORMAL
            if lane is Lane.URGENT:
                self._waiting[Lane.NORMAL].pop(name, None)
            self._waiting[lane][name] = None
            self._arrived.set()

    def mark_later(self, name: str, seconds: float) -> None:
        """Have a name worked on after a while; replaces an earlier such wish for it."""
        self.forget_timer(name)
        self._timers[name] = asyncio.get_running_loop().call_later(seconds, self.mark, name)

    def forget_timer(self, name: str) -> None:
        """Drop what `mark_later` was told for a name."""
        if timer := self._timers.pop(name, None):
            timer.cancel()

    async def run(self) -> None:
        """Work until cancelled."""
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(self._workers):
                    group.create_task(self._worker())
        finally:
            for name in list(self._timers):
                self.forget_timer(name)

    async def _worker(self) -> None:
        while True:
            name = await self._next()
            self._busy.add(name)
            try:
                await self._attempt(name)
            finally:
                self._busy.discard(name)
                if name in self._again:  # marked meanwhile
                    self._again.discard(name)
                    self.mark(name)

    async def _next(self) -> str:
        while not any(self._waiting.values()):
            self._arrived.clear()
            await self._arrived.wait()
        lane = next(waiting for waiting in self._waiting.values() if waiting)
        return lane.popitem(last=False)[0]

    async def _attempt(self, name: str) -> None:
        try:
            await self._work(name)
            self._failures.pop(name, None)
        except errors.ApiServerError as error:
            pause = self._pause_after_failure(name, error)
            log.warning("%s: %s; again in %.0f s", name, error, pause)
        except Exception as error:
            pause = self._pause_after_failure(name, error)
            log.exception("%s: unexpected; again in %.0f s", name, pause)

    def _pause_after_failure(self, name: str, error: Exception) -> float:
        attempt = self._failures.get(name, 0)
        self._failures[name] = attempt + 1
        pause = self._pauses.seconds(attempt, random.random)
        if isinstance(error, errors.Throttled):
            pause = max(pause, error.retry_after_seconds or 0.0)
        self.mark_later(name, pause)
        return pause
