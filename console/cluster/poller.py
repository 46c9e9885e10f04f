"""Read the cluster for all requests together, in one thread with an event loop of its own.

The snapshot is read on demand, at most once in `interval_seconds` and never more than a tenth of the time; a request
gets the newest one without waiting. What only one page shows is read once for all who ask at the same time, and kept
for some seconds. So no number of requests makes more reads.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final, TypeVar

from apiserver_client import connection, errors, session
from component_base import clock
from console.history.memory import History
from console.view import FleetView
from fleet.reading import Reader

T = TypeVar("T")
log = logging.getLogger(__name__)

Read = Callable[[session.Session], Coroutine[Any, Any, T]]
INTERVAL_SECONDS: Final = 10.0
_PAUSE_FACTOR: Final = 9.0
"""Pause between two reads, as a multiple of the time that the last one took."""
_LATE_INTERVALS: Final = 3.0
_DETAIL_SECONDS: Final = 10.0
_MOST_DETAILS: Final = 32
_STOP_SECONDS: Final = 2.0


class CutOff(Exception):
    """A read of one page was cut off, because more of them were asked for than are kept."""

    def __init__(self) -> None:
        super().__init__(f"more than {_MOST_DETAILS} pages are read at the same time; open this one again")


class Poller:
    """Thread that reads. `always` reads without a request too, for the history."""

    def __init__(
        self,
        to: connection.Connection,
        namespace: str,
        *,
        interval_seconds: float = INTERVAL_SECONDS,
        request_timeout_seconds: float = 60.0,
        always: bool = False,
    ) -> None:
        self.server = to.server
        self.namespace = namespace
        self.history = History()
        self.view = FleetView()
        """Replaced as a whole by the thread."""
        self.first = threading.Event()
        """Set once the first attempt has ended."""
        self._replaced = threading.Condition()
        self._to = to
        self._interval_seconds = interval_seconds
        self._timeouts = session.Timeouts(read=request_timeout_seconds, request=request_timeout_seconds)
        self._always = always
        self._details: OrderedDict[tuple[str, ...], tuple[float, asyncio.Task[Any]]] = OrderedDict()
        self._loop = asyncio.new_event_loop()
        self._requested = asyncio.Event()
        self._stopping = asyncio.Event()
        self._api: asyncio.Future[session.Session] = self._loop.create_future()
        self._thread = threading.Thread(target=self._run, name="console-reads", daemon=True)

    def start(self) -> None:
        """Start the thread, which reads a first snapshot at once."""
        self._thread.start()

    def is_alive(self) -> bool:
        """Check whether the thread runs."""
        return self._thread.is_alive()

    def stop(self) -> None:
        """End the thread; a read is cut off."""
        self._loop.call_soon_threadsafe(self._stopping.set)
        self._thread.join(_STOP_SECONDS)

    def newest(self) -> FleetView:
        """Return the newest snapshot, and have another one read if it is time."""
        self._loop.call_soon_threadsafe(self._requested.set)
        return self.view

    def wait_for_next(self, view: FleetView, seconds: float) -> None:
        """Wait until another snapshot than this one was read, or its read failed; at most so long."""
        if not self.is_alive():
            return
        with self._replaced:
            self._replaced.wait_for(lambda: self.view is not view, seconds)

    def _replace(self, view: FleetView) -> None:
        with self._replaced:
            self.view = view
            self._replaced.notify_all()

    async def detail(self, key: tuple[str, ...], read: Read[T]) -> T:
        """Return what `read` returns, once for all callers of some seconds.

        Raises errors.ApiServerError, and CutOff where the read made room for others.
        """
        pending = asyncio.run_coroutine_threadsafe(self._shared(key, read), self._loop)
        return await asyncio.wrap_future(pending)

    def _run(self) -> None:
        with contextlib.closing(self._loop):
            self._loop.run_until_complete(self._serve())

    async def _serve(self) -> None:
        reads = asyncio.create_task(self._read_always())
        await self._stopping.wait()
        tasks = {reads, *asyncio.all_tasks()} - {asyncio.current_task()}
        for task in tasks:
            task.cancel()  # callers that wait end too
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _read_always(self) -> None:
        try:
            async with session.connect(self._to, user_agent="koord-console", timeouts=self._timeouts) as api:
                self._api.set_result(api)
                while True:
                    self._requested.clear()
                    await asyncio.sleep(await self._read(api))
                    if not self._always:
                        await self._requested.wait()  # a request during the pause counts
        except errors.ApiServerError as error:
            self._replace(FleetView(error=str(error)))
            self.first.set()
            self._api.set_exception(error)

    async def _read(self, api: session.Session) -> float:
        """Read a snapshot; return the pause before the next one."""
        began, now = time.monotonic(), clock.utc_now()
        try:
            snapshot = await Reader(api, now).snapshot(self.namespace)
        except errors.ApiServerError as error:
            log.warning("no snapshot of %s: %s; trying again", self.server, error)
            self._replace(dataclasses.replace(self.view, error=str(error)))
            self.first.set()
            return max(self._interval_seconds, error.retry_after_seconds or 0.0)
        took = time.monotonic() - began
        pause = max(self._interval_seconds, _PAUSE_FACTOR * took)
        self._replace(FleetView(snapshot, took, _LATE_INTERVALS * (pause + took)).prepared())
        if snapshot.nodes is not None:
            self.history.record(now.timestamp(), snapshot.nodes)
        self.first.set()
        return pause

    async def _shared(self, key: tuple[str, ...], read: Read[T]) -> T:
        api = await asyncio.shield(self._api)
        now = time.monotonic()
        detail = self._details.get(key)
        if detail is None or (detail[1].done() and now >= detail[0]):
            task = asyncio.create_task(self._timed(key, read(api)))
            self._details[key] = (float("inf"), task)
            while len(self._details) > _MOST_DETAILS:
                _, (_, oldest) = self._details.popitem(last=False)
                oldest.cancel()
            detail = self._details[key]
        self._details.move_to_end(key)
        try:
            result: T = await asyncio.shield(detail[1])
        except asyncio.CancelledError:
            if detail[1].cancelled() and not self._stopping.is_set():
                raise CutOff from None
            raise
        return result

    async def _timed(self, key: tuple[str, ...], read: Awaitable[T]) -> T:
        """Await a read, and keep its result for some seconds, longer after a long read."""
        began = time.monotonic()
        try:
            return await read
        finally:
            ended = time.monotonic()
            keep = max(_DETAIL_SECONDS, _PAUSE_FACTOR * (ended - began))
            if (detail := self._details.get(key)) is not None:
                self._details[key] = (ended + keep, detail[1])
