"""Stands for the Lease in a thread with an event loop and a client of its own: a busy main loop delays no renewal.

Each process is a candidate under a new name: a restart does not inherit a Lease. Whoever has lost it must stop before
others may start: its process ends, by force if it does not end by itself.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import logging
import os
import threading
import time
from collections.abc import Callable

from apiserver_client import connection, session
from manager.leader_election.elector import LeaderElector, Role
from manager.settings import ManagerSettings

log = logging.getLogger(__name__)

_GRACE = 0.6  # of the time between our renew deadline and the end of our lease: for a clean end after a loss


class LeaderElection:
    """`on_change` is called, in the thread, when the role changed. `die` ends a process that does not end by itself."""

    def __init__(
        self,
        to: connection.Connection,
        settings: ManagerSettings,
        identity: str,
        on_change: Callable[[Role], None],
        *,
        die: Callable[[int], object] = os._exit,
    ) -> None:
        self._to = to
        self._settings = settings
        self._on_change = on_change
        self._die = die
        self._candidacy = LeaderElector(settings, identity, clock=time.monotonic, now=_now)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="leader-election", daemon=True)

    def start(self) -> None:
        """Become a candidate."""
        self._thread.start()

    def stop(self) -> None:
        """Give the Lease up, if it is ours, and wait until that is done."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(timeout=5.0)

    @property
    def role(self) -> Role:
        """What this process is now."""
        return self._candidacy.role

    @property
    def last_error(self) -> str | None:
        """What stands between us and the Lease; None while all is well."""
        return self._candidacy.last_error

    def may_write(self) -> bool:
        """Whether nobody else can be leading now; asked before each write."""
        return self._candidacy.may_write()

    def silence_seconds(self) -> float:
        """Time since the apiserver last answered about the Lease."""
        return self._candidacy.silence_seconds()

    def is_alive(self) -> bool:
        """Whether the thread runs."""
        return self._thread.is_alive()

    def _run(self) -> None:
        try:
            asyncio.run(self._campaign())
        except Exception:
            log.exception("the leader election failed")
            self._lose()

    async def _campaign(self) -> None:
        timeouts = session.Timeouts(
            connect=self._settings.retry_period_seconds,
            read=self._settings.retry_period_seconds * 2,
            request=self._settings.retry_period_seconds * 2,
        )
        async with session.connect(self._to, user_agent="koord-manager/lease", timeouts=timeouts) as api:
            while not self._stop.is_set():
                before, role = self.role, await self._candidacy.look(api)
                if role is Role.LOST:
                    self._lose()
                    return
                if role is not before:
                    self._on_change(role)
                await asyncio.to_thread(self._stop.wait, self._settings.retry_period_seconds)
            if self.role is Role.LEADER:
                self._candidacy.role = Role.STOPPED  # first: nothing is written under a Lease that is given up
                await self._candidacy.release(api)
        self._candidacy.role = Role.STOPPED
        self._on_change(Role.STOPPED)

    def _lose(self) -> None:
        log.error("lost the Lease %s: ending, so that whoever holds it is alone", self._settings.lease)
        self._candidacy.role = Role.LOST
        self._on_change(Role.LOST)
        margin_seconds = self._settings.lease_duration_seconds - self._settings.renew_deadline_seconds
        if not self._stop.wait(_GRACE * margin_seconds):
            self._die(1)


def _now() -> dt.datetime:
    return dt.datetime.now(dt.UTC)  # noqa: TID251  # the edge at which the thread reads the clock
