"""Events the manager posts. An Event that cannot be posted is logged and counted; no decision waits for one."""

from __future__ import annotations

import datetime as dt
import logging
from collections.abc import Callable
from typing import Final, Literal

from apiserver_client import cluster_events, errors, session
from apiserver_client.cluster_events import Subject
from manager.telemetry import Telemetry

log = logging.getLogger(__name__)

REPORTER: Final = "koord-manager"


class Announcer:
    """Posts Events in the manager's name; `clock` gives aware time."""

    def __init__(self, api: session.Session, telemetry: Telemetry, clock: Callable[[], dt.datetime]) -> None:
        self._api = api
        self._telemetry = telemetry
        self._clock = clock

    async def say(self, about: Subject, severity: Literal["Normal", "Warning"], reason: str, message: str) -> None:
        """Post an Event about an object; saying the same thing again counts it up."""
        level = logging.WARNING if severity == "Warning" else logging.INFO
        log.log(level, "%s %s: %s: %s", about.resource.kind, about.name, reason, message)
        event = cluster_events.body(
            about, severity=severity, reason=reason, message=message, reporter=REPORTER, now=self._clock()
        )
        try:
            await cluster_events.record(self._api, event)
        except errors.ApiServerError as error:
            self._telemetry.events_lost.inc()
            log.warning("cannot post the Event: %s", error)
