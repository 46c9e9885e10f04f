"""Kubernetes Events of the manager. An Event that cannot be posted is logged and counted; no decision waits for one.

When something happens to every node at once, an Event for each would cost the apiserver more than the change itself.
So the Events about one kind of object are posted at a bounded rate; beyond it they are only logged and counted. The
status annotation of the node and the metrics hold the same information.

Each object has a rate of its own below that: a node whose annotation changes all the time uses up neither the Events of
the other nodes nor the log. It is kept by name, so a recreated object does not get a new one.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import logging
from collections import OrderedDict
from collections.abc import Callable
from typing import Final, Literal

from apiserver_client import cluster_events, errors, session
from apiserver_client.cluster_events import Subject
from component_base.rate_limits import TokenBucket
from manager.metrics.telemetry import Telemetry

log = logging.getLogger(__name__)


Severity = Literal["Normal", "Warning"]
REPORTER: Final = "koord-manager"
BURST: Final = 300
PER_SECOND: Final = 10.0  # an Event is up to three requests; the apiserver sustains some 200 writes a second
OBJECT_BURST: Final = 50  # twice the problems that are reported of one document
OBJECT_PER_SECOND: Final = 0.1
MOST_WAITING: Final = 1000
_MOST_OBJECTS: Final = 10_000  # twice the nodes of the largest cluster


class EventRecorder:
    """Posts Events as `koord-manager`; `clock` returns aware time."""

    def __init__(self, api: session.Session, telemetry: Telemetry, clock: Callable[[], dt.datetime]) -> None:
        self._api = api
        self._telemetry = telemetry
        self._clock = clock
        self._kind_buckets: dict[str, TokenBucket] = {}
        self._object_buckets: OrderedDict[tuple[str, str, str], TokenBucket] = OrderedDict()
        """Least recently used first."""
        self._resume_at = dt.datetime.min.replace(tzinfo=dt.UTC)
        """Time before which the apiserver asked to send no further Event."""

    async def event(self, about: Subject, severity: Severity, reason: str, message: str) -> None:
        """Log and post an Event about an object; the same Event again increments its count."""
        now, key = self._clock(), (about.resource.kind, about.namespace, about.name)
        object_bucket = self._object_buckets.setdefault(key, TokenBucket(OBJECT_BURST, OBJECT_PER_SECOND))
        self._object_buckets.move_to_end(key)
        if len(self._object_buckets) > _MOST_OBJECTS:
            self._object_buckets.popitem(last=False)
        if not object_bucket.take(now.timestamp()):
            self._telemetry.events_lost.inc()
            return
        level = logging.WARNING if severity == "Warning" else logging.INFO
        log.log(level, "%s %s: %s: %s", about.resource.kind, about.name, reason, message)
        bucket = self._kind_buckets.setdefault(about.resource.kind, TokenBucket(BURST, PER_SECOND))
        if now < self._resume_at or not bucket.take(now.timestamp()):
            self._telemetry.events_lost.inc()
            return
        event = cluster_events.body(
            about, severity=severity, reason=reason, message=message, reporter=REPORTER, now=now
        )
        try:
            await cluster_events.record(self._api, event)
        except errors.ApiServerError as error:
            self._resume_at = now + dt.timedelta(seconds=error.retry_after_seconds or 0.0)
            self._telemetry.events_lost.inc()
            log.warning("cannot post the Event %s on %s %s: %s", reason, about.resource.kind, about.name, error)


class QueuedRecorder(EventRecorder):
    """Recorder whose `event` only queues; beyond `MOST_WAITING` Events are counted as lost."""

    def __init__(self, api: session.Session, telemetry: Telemetry, clock: Callable[[], dt.datetime]) -> None:
        super().__init__(api, telemetry, clock)
        self._waiting: asyncio.Queue[tuple[Subject, Severity, str, str]] = asyncio.Queue(MOST_WAITING)

    async def event(self, about: Subject, severity: Severity, reason: str, message: str) -> None:
        """Queue an Event about an object."""
        try:
            self._waiting.put_nowait((about, severity, reason, message))
        except asyncio.QueueFull:
            self._telemetry.events_lost.inc()
            log.warning(
                "%s %s: %s: %s (the Event is lost: %d wait)",
                *(about.resource.kind, about.name, reason, message, MOST_WAITING),
            )

    async def run(self) -> None:
        """Post queued Events until cancelled."""
        while True:
            about, severity, reason, message = await self._waiting.get()
            try:
                await super().event(about, severity, reason, message)
            except Exception:
                log.exception("cannot post the Event %s on %s: unexpected error", reason, about.name)
