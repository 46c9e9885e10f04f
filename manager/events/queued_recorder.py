"""Events in a task of their own: nothing waits for one, however slowly the apiserver answers, or if it does not."""

from __future__ import annotations

import asyncio
import datetime as dt
import logging
from collections.abc import Callable
from typing import Final, Literal, NamedTuple

from apiserver_client import session
from apiserver_client.cluster_events import Subject
from manager.events.recorder import EventRecorder
from manager.metrics.telemetry import Telemetry

log = logging.getLogger(__name__)

MOST_WAITING: Final = 1000


class _Waiting(NamedTuple):
    about: Subject
    severity: Literal["Normal", "Warning"]
    reason: str
    message: str


class QueuedRecorder(EventRecorder):
    """Recorder whose `event` only queues; beyond `MOST_WAITING` Events are counted as lost."""

    def __init__(self, api: session.Session, telemetry: Telemetry, clock: Callable[[], dt.datetime]) -> None:
        super().__init__(api, telemetry, clock)
        self._lost = telemetry.events_lost
        self._waiting: asyncio.Queue[_Waiting] = asyncio.Queue(MOST_WAITING)

    async def event(self, about: Subject, severity: Literal["Normal", "Warning"], reason: str, message: str) -> None:
        """Queue an Event about an object."""
        try:
            self._waiting.put_nowait(_Waiting(about, severity, reason, message))
        except asyncio.QueueFull:
            self._lost.inc()
            log.warning(
                "%s %s: %s: %s (the Event is lost: %d wait)",
                *(about.resource.kind, about.name, reason, message, MOST_WAITING),
            )

    async def run(self) -> None:
        """Post queued Events until cancelled."""
        while True:
            await self._post(await self._waiting.get())

    async def drain(self) -> None:
        """Post the Events that are queued now."""
        while not self._waiting.empty():
            await self._post(self._waiting.get_nowait())

    async def _post(self, waiting: _Waiting) -> None:
        try:
            await super().event(*waiting)
        except Exception:
            log.exception("cannot post the Event %s on %s: unexpected error", waiting.reason, waiting.about.name)
