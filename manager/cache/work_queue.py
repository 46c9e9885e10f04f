"""Work queue keyed by node name: deduplicates, one worker per key, urgent lane, exponential backoff.

A name that is added while a worker reconciles it is reconciled again afterwards. Urgent names precede all others.
Adding a name costs nothing: a worker computes its priority later, before it takes the next name, and again when the
name is added again.

A failed name is retried after a growing, jittered delay, or after the time that the apiserver asked for. Until then
adding it does nothing, also where it is urgent: otherwise an object that changes often, by whatever client, would turn
each refused write into a stream of them. The delay is bounded, so a withdrawal waits for five minutes at most, and
for half a minute where the apiserver asks for no more.

Single-threaded: everything runs on one event loop. The workers give way to its other tasks after each name.
"""

from __future__ import annotations

import asyncio
import enum
import logging
import random
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from apiserver_client import backoff, errors

log = logging.getLogger(__name__)

Work = Callable[[str], Awaitable[float | None]]
"""Returns the seconds after which the name is to be worked on without an event, None for never."""

LONGEST_RETRY_AFTER_SECONDS: Final = 300.0
"""Bound of what an answer may ask for: any admission webhook may make that answer, and a withdrawal must not stop."""


class Lane(enum.StrEnum):
    """Lanes of the queue, each in order of arrival; the first one has precedence."""

    URGENT = "urgent"
    NORMAL = "normal"


@dataclass(eq=False)
class WorkQueue:
    """Keyed queue; `work` is called with a name and may raise, which requeues the name.

    `is_urgent` is called after a name was added: it sees the state that caused the call, or a newer one.
    """

    work: Work
    workers: int
    is_urgent: Callable[[str], bool] = lambda _: False
    delays: backoff.Backoff = backoff.DEFAULT

    def __post_init__(self) -> None:
        self._added: OrderedDict[str, None] = OrderedDict()
        """Names whose priority is not known yet."""
        self._waiting: dict[Lane, OrderedDict[str, None]] = {lane: OrderedDict() for lane in Lane}
        self._busy: set[str] = set()
        self._dirty: set[str] = set()
        self._failures: dict[str, int] = {}
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._retries: dict[str, asyncio.TimerHandle] = {}
        """Timers of the names in backoff."""
        self._idle: deque[asyncio.Future[None]] = deque()
        """Workers that wait; a name wakes one of them."""

    def depth(self, lane: Lane) -> int:
        """Return the number of names that wait in a lane; the normal one counts those of unknown priority."""
        return len(self._waiting[lane]) + (len(self._added) if lane == Lane.NORMAL else 0)

    def add(self, name: str) -> None:
        """Add a name, to be reconciled as soon as a worker is free, or at the end of its backoff."""
        if name in self._retries:
            return
        if name in self._busy:
            self._dirty.add(name)
        elif name not in self._waiting[Lane.URGENT]:
            self._added[name] = None
            while self._idle:
                added = self._idle.popleft()
                if not added.done():
                    added.set_result(None)
                    return

    def add_after(self, name: str, seconds: float) -> None:
        """Add a name after a delay; replaces an earlier delay of this name."""
        if timer := self._timers.pop(name, None):
            timer.cancel()
        self._timers[name] = asyncio.get_running_loop().call_later(seconds, self.add, name)

    async def run(self) -> None:
        """Work until cancelled."""
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(self.workers):
                    group.create_task(self._worker())
        finally:
            for timer in (*self._timers.values(), *self._retries.values()):
                timer.cancel()
            self._timers.clear()
            self._retries.clear()

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
            await asyncio.sleep(0)  # an attempt without a request has not given way to any other task

    async def _next(self) -> str:
        """Return the first name of the first lane, once the names that were added before have their priority."""
        while True:
            for _ in range(len(self._added)):
                if self._added:  # other workers take from it too
                    self._assign_lane(self._added.popitem(last=False)[0])
                    await asyncio.sleep(0)
            for waiting in self._waiting.values():
                if waiting:
                    return waiting.popitem(last=False)[0]
            if not self._added:
                added = asyncio.get_running_loop().create_future()
                self._idle.append(added)
                await added

    def _assign_lane(self, name: str) -> None:
        if name in self._busy or name in self._retries:  # it waited in a lane too, and a worker took it from there
            self.add(name)
            return
        try:
            urgent = self.is_urgent(name)
        except Exception:
            log.exception("node %s: cannot compute its priority: unexpected error; using the normal one", name)
            urgent = False
        if urgent:
            self._waiting[Lane.NORMAL].pop(name, None)
            self._waiting[Lane.URGENT][name] = None
        else:
            self._waiting[Lane.NORMAL].setdefault(name)

    async def _attempt(self, name: str) -> None:
        if timer := self._timers.pop(name, None):
            timer.cancel()
        try:
            seconds = await self.work(name)
            self._failures.pop(name, None)
            if seconds is not None:
                self.add_after(name, seconds)
        except errors.ApiServerError as error:
            delay = self._back_off(name, error)
            log.warning("node %s: reconcile failed: %s; retrying in %.0f s", name, error, delay)
        except Exception as error:
            delay = self._back_off(name, error)
            log.exception("node %s: reconcile failed: unexpected error; retrying in %.0f s", name, delay)

    def _back_off(self, name: str, error: Exception) -> float:
        attempt = self._failures.get(name, 0)
        self._failures[name] = attempt + 1
        delay = self.delays.seconds(attempt, random.random)
        if isinstance(error, errors.StatusError):
            delay = max(delay, min(error.retry_after_seconds or 0.0, LONGEST_RETRY_AFTER_SECONDS))
        self._retries[name] = asyncio.get_running_loop().call_later(delay, self._retry, name)
        return delay

    def _retry(self, name: str) -> None:
        del self._retries[name]
        self.add(name)
