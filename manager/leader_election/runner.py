"""Runs the elector in a thread with its own event loop and client: a busy main loop delays no renewal.

Each process is a candidate under a new identity: a restarted process does not inherit the Lease. A process that has
lost the Lease must stop before another may lead: it exits, by force if it does not exit by itself.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
import time
from collections.abc import Callable

from apiserver_client import connection, session
from component_base import clock
from manager.leader_election.elector import REQUEST_PERIODS, LeaderElector, Role
from manager.settings import ManagerSettings

log = logging.getLogger(__name__)

_GRACE = 0.6
"""Fraction of (lease duration - renew deadline) allowed for a clean exit after a loss; then the process is killed."""


class LeaderElection:
    """Thread of the leader election; `elector` is read by the rest of the program.

    `on_change` is called, in the thread, when the role changed. `die` ends a process that does not exit by itself.
    """

    def __init__(
        self,
        to: connection.Connection,
        settings: ManagerSettings,
        identity: str,
        on_change: Callable[[Role], None],
        *,
        die: Callable[[int], object] = os._exit,
    ) -> None:
        self.elector = LeaderElector(settings, identity, clock=time.monotonic, now=clock.utc_now)
        self._to = to
        self._settings = settings
        self._on_change = on_change
        self._die = die
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="leader-election", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Release the Lease if this process holds it, and wait until that is done."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(timeout=5.0)

    def is_alive(self) -> bool:
        """Check whether the thread runs."""
        return self._thread.is_alive()

    def _run(self) -> None:
        try:
            asyncio.run(self._elect())
        except Exception:
            log.exception("leader election: unexpected error")
            self._lose()

    async def _elect(self) -> None:
        timeouts = session.Timeouts(
            connect=self._settings.retry_period_seconds,
            read=self._settings.retry_period_seconds * REQUEST_PERIODS,
            request=self._settings.retry_period_seconds * REQUEST_PERIODS,
        )
        async with session.connect(self._to, user_agent="koord-manager/lease", timeouts=timeouts) as api:
            while not self._stop.is_set():
                before, role = self.elector.role, await self.elector.try_acquire_or_renew(api)
                if role is Role.LOST:
                    self._lose()
                    return
                if role is not before:
                    self._on_change(role)
                await asyncio.to_thread(self._stop.wait, self.elector.pause_seconds())
            if self.elector.role is Role.LEADER:
                self.elector.role = Role.STOPPED  # first: nothing is written under a released Lease
                await self.elector.release(api)
        self.elector.role = Role.STOPPED
        self._on_change(Role.STOPPED)

    def _lose(self) -> None:
        log.error("lost lease %s, exiting so that only one leader is active", self._settings.lease)
        self.elector.role = Role.LOST
        self._on_change(Role.LOST)
        margin_seconds = self._settings.lease_duration_seconds - self._settings.renew_deadline_seconds
        if not self._stop.wait(_GRACE * margin_seconds):
            self._die(1)
