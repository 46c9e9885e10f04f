"""Takes, renews and gives up the Lease, in a thread with an event loop and a client of its own.

Its own, so that a busy main loop never delays a renewal. Each process is a candidate under a new name: a restart does
not inherit a Lease. Whoever cannot renew for `renew_deadline` has lost it, and must stop before others may start: its
process ends, by force if it does not end by itself.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import enum
import logging
import os
import threading
import time
from collections.abc import Callable

from apiserver_client import connection, errors, objects, resources, session
from manager import lease
from manager.settings import ManagerSettings

log = logging.getLogger(__name__)

_GRACE = 0.6  # of the time between our renew deadline and the end of our lease: for a clean end after a loss


class Role(enum.Enum):
    """What this process is."""

    STANDBY = "standby"
    LEADER = "leader"
    LOST = "lost"
    STOPPED = "stopped"


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
        self.role = Role.STANDBY
        self.last_error: str | None = None
        self._to = to
        self._settings = settings
        self._identity = identity
        self._on_change = on_change
        self._die = die
        self._last_answer = time.monotonic()
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

    def silence_seconds(self) -> float:
        """Time since the apiserver last answered about the Lease."""
        return time.monotonic() - self._last_answer

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
            sighting: lease.Sighting | None = None
            renewed_at = time.monotonic()
            while not self._stop.is_set():
                asked_at = time.monotonic()
                sighting, ours = await self._attempt(api, sighting)
                if ours:
                    renewed_at = asked_at
                    self._become(Role.LEADER)
                elif self.role is Role.LEADER and self._is_lost(sighting, renewed_at):
                    self._lose()
                    return
                await asyncio.to_thread(self._stop.wait, self._settings.retry_period_seconds)
            if self.role is Role.LEADER:
                await self._release(api)
        self._become(Role.STOPPED)

    def _is_lost(self, sighting: lease.Sighting | None, renewed_at: float) -> bool:
        taken = sighting is not None and sighting.spec.holder_identity not in (None, self._identity)
        return taken or time.monotonic() - renewed_at > self._settings.renew_deadline_seconds

    async def _attempt(self, api: session.Session, known: lease.Sighting | None) -> tuple[lease.Sighting | None, bool]:
        """One look at the Lease; whether it is ours afterwards."""
        try:
            sighting, ours = await self._look(api, known)
        except errors.ApiServerError as error:
            if str(error) != self.last_error:
                log.warning("cannot look after the Lease: %s", error)
            self.last_error = str(error)
            return known, False
        self._last_answer = time.monotonic()
        self.last_error = None
        return sighting, ours

    async def _look(self, api: session.Session, known: lease.Sighting | None) -> tuple[lease.Sighting, bool]:
        name, namespace = self._settings.lease, self._settings.namespace
        try:
            current = await objects.get(api, resources.LEASES, name, namespace=namespace, decode=lease.Lease)
        except errors.NotFound:
            current = lease.Lease()
        sighting = lease.sight(known, current.spec, time.monotonic())
        if current.spec.holder_identity != self._identity and not lease.is_free(sighting, time.monotonic()):
            return sighting, False
        spec = current.spec if current.metadata.name else None
        wanted = lease.held(spec, self._identity, self._settings.lease_duration_seconds, _now())
        try:
            await self._put(api, wanted, current.metadata.resource_version)
        except (errors.Conflict, errors.AlreadyExists):
            return sighting, False  # somebody was faster; the next look shows who
        return lease.Sighting(wanted, time.monotonic()), True

    async def _put(self, api: session.Session, spec: lease.LeaseSpec, version: str) -> None:
        name, namespace = self._settings.lease, self._settings.namespace
        document = lease.body(name, namespace, spec, version)
        if version:
            await objects.replace(api, resources.LEASES, name, document, namespace=namespace, decode=lease.Lease)
        else:
            await objects.create(api, resources.LEASES, document, namespace=namespace, decode=lease.Lease)

    async def _release(self, api: session.Session) -> None:
        name, namespace = self._settings.lease, self._settings.namespace
        try:
            current = await objects.get(api, resources.LEASES, name, namespace=namespace, decode=lease.Lease)
            if current.spec.holder_identity == self._identity:
                await self._put(api, lease.given_up(current.spec, _now()), current.metadata.resource_version)
                log.info("gave the Lease up")
        except errors.ApiServerError as error:
            log.warning("cannot give the Lease up, others wait until it expires: %s", error)

    def _become(self, role: Role) -> None:
        if role is not self.role:
            self.role = role
            self._on_change(role)

    def _lose(self) -> None:
        log.error("lost the Lease %s: ending, so that whoever holds it is alone", self._settings.lease)
        self._become(Role.LOST)
        margin_seconds = self._settings.lease_duration_seconds - self._settings.renew_deadline_seconds
        if not self._stop.wait(_GRACE * margin_seconds):
            self._die(1)


def _now() -> dt.datetime:
    return dt.datetime.now(dt.UTC)  # noqa: TID251  # the edge at which the thread reads the clock
