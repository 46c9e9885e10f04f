"""Work queue keyed by node name: deduplicates, one worker per key, urgent lane, exponential backoff.

A name that is added while a worker reconciles it is reconciled again afterwards. Priority is computed when a name is
added and not again while it waits; urgent names precede all others. A failed name is retried after a growing, jittered
delay. Single-threaded: everything runs on one event loop.
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
    """Lanes of the queue, each in order of arrival; the first one has precedence."""

    URGENT = "urgent"
    NORMAL = "normal"


class WorkQueue:
    """Keyed queue; `work` is called with a name and may raise, which requeues the name.

    `is_urgent` is called when a name is added: it sees the state that caused the call.
    """

    def __init__(
        self,
        work: Work,
        *,
        workers: int,
        is_urgent: Callable[[str], bool] = lambda _: False,
        delays: backoff.Backoff = backoff.DEFAULT,
    ) -> None:
        self._work = work
        self._workers = workers
        self._is_urgent = is_urgent
        self._delays = delays
        self._waiting: dict[Lane, OrderedDict[str, None]] = {lane: OrderedDict() for lane in Lane}
        self._busy: set[str] = set()
        self._dirty: set[str] = set()
        self._failures: dict[str, int] = {}
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._arrived = asyncio.Event()

    def depth(self, lane: Lane) -> int:
        """Return the number of names that wait in a lane."""
        return len(self._waiting[lane])

    def add(self, name: str) -> None:
        """Add a name, to be reconciled as soon as a worker is free."""
        if name in self._busy:
            self._dirty.add(name)
        elif name not in self._waiting[Lane.URGENT]:
            lane = Lane.URGENT if self._is_urgent(name) else Lane.NORMAL
            if lane is Lane.URGENT:
                self._waiting[Lane.NORMAL].pop(name, None)
            self._waiting[lane][name] = None
            self._arrived.set()

    def add_after(self, name: str, seconds: float) -> None:
        """Add a name after a delay; replaces an earlier delay of this name."""
        self.cancel(name)
        self._timers[name] = asyncio.get_running_loop().call_later(seconds, self.add, name)

    def cancel(self, name: str) -> None:
        """Cancel the delay that `add_after` set for a name."""
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
                self.cancel(name)

    async def _worker(self) -> None:
        while True:
            name = await self._next()
            self._busy.add(name)
            try:
                await self._attempt(name)
            finally:
                self._busy.discard(name)
                if name in self._dirty:  # added meanwhile
                    self._dirty.discard(name)
                    self.add(name)

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
            delay = self._requeue_failed(name, error)
            log.warning("node %s: reconcile failed: %s; retrying in %.0f s", name, error, delay)
        except Exception as error:
            delay = self._requeue_failed(name, error)
            log.exception("node %s: reconcile failed: unexpected error; retrying in %.0f s", name, delay)

    def _requeue_failed(self, name: str, error: Exception) -> float:
        attempt = self._failures.get(name, 0)
        self._failures[name] = attempt + 1
        delay = self._delays.seconds(attempt, random.random)
        if isinstance(error, errors.Throttled):
            delay = max(delay, error.retry_after_seconds or 0.0)
        self.add_after(name, delay)
        return delay
