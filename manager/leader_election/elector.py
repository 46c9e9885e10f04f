"""Leader-election state machine of one process. Time and scheduling are injected.

`try_acquire_or_renew` acquires, renews or detects the loss of the Lease. A leader that cannot renew within
`renew_deadline` may not write any more, although other candidates wait for `lease_duration`. `may_write` is checked
before each write: a process that was suspended past its Lease has not noticed the time that passed.
"""

from __future__ import annotations

import datetime as dt
import enum
import logging
from collections.abc import Callable
from typing import Final

from apiserver_client import errors, objects, resources, session
from manager.leader_election import lease
from manager.settings import ManagerSettings

log = logging.getLogger(__name__)

REQUEST_PERIODS: Final = 2
"""Timeout of a request, in retry periods."""


class Role(enum.Enum):
    """State of this process in the election."""

    STANDBY = "standby"
    LEADER = "leader"
    LOST = "lost"
    STOPPED = "stopped"


class LeaderElector:
    """Candidate for the Lease; `clock` returns monotonic seconds, `now` aware time. Reads are thread-safe."""

    def __init__(
        self,
        settings: ManagerSettings,
        identity: str,
        *,
        clock: Callable[[], float],
        now: Callable[[], dt.datetime],
    ) -> None:
        self.role = Role.STANDBY
        self.last_error: str | None = None
        """Error of the last request for the Lease; None while requests succeed."""
        self._settings = settings
        self._identity = identity
        self._clock = clock
        self._now = now
        self._observed: lease.ObservedLease | None = None
        self._last_response = self._renewed_at = clock()
        self._retry_after_seconds = 0.0

    def may_write(self) -> bool:
        """Check that no other process can be the leader now."""
        return self.role is Role.LEADER and not self._is_overdue()

    def silence_seconds(self) -> float:
        """Return the time since the apiserver last answered a request for the Lease."""
        return self._clock() - self._last_response

    def pause_seconds(self) -> float:
        """Return the time until the next attempt: as the apiserver asks, within what the Lease allows.

        A leader keeps the time of one more request before its deadline; a candidate waits for a lease duration at most.
        """
        period = self._settings.retry_period_seconds
        longest = float(self._settings.lease_duration_seconds)
        if self.role is Role.LEADER:
            deadline = self._renewed_at + self._settings.renew_deadline_seconds
            longest = deadline - self._clock() - period * REQUEST_PERIODS
        return max(period, min(self._retry_after_seconds, longest))

    async def try_acquire_or_renew(self, api: session.Session) -> Role:
        """Read the Lease, acquire or renew it where that is possible, and return the resulting role."""
        started_at = self._clock()
        try:
            is_holder = await self._acquire_or_renew(api)
        except errors.ApiServerError as error:
            if str(error) != self.last_error:
                log.warning("cannot acquire or renew lease %s: %s", self._settings.lease, error)
            self.last_error = str(error)
            self._retry_after_seconds = error.retry_after_seconds or 0.0
            is_holder = False
        else:
            self._last_response = self._clock()
            self.last_error = None
            self._retry_after_seconds = 0.0
        if is_holder:
            self._renewed_at = started_at
            self.role = Role.LEADER
        elif self.role is Role.LEADER and (self._has_other_holder() or self._is_overdue()):
            self.role = Role.LOST
        return self.role

    def _is_overdue(self) -> bool:
        return self._clock() - self._renewed_at > self._settings.renew_deadline_seconds

    def _has_other_holder(self) -> bool:
        return self._observed is not None and self._observed.spec.holder_identity not in (None, self._identity)

    async def _acquire_or_renew(self, api: session.Session) -> bool:
        """Write the Lease where this process holds it or it is free; return whether this process is the holder."""
        name, namespace = self._settings.lease, self._settings.namespace
        try:
            current = await objects.get(api, resources.LEASES, name, namespace=namespace, decode=lease.Lease)
        except errors.NotFound:
            current = lease.Lease()
        self._observed = lease.observe(self._observed, current.spec, self._clock())
        is_holder = current.spec.holder_identity == self._identity
        if not is_holder and (self.role is Role.LEADER or not lease.is_free(self._observed, self._clock())):
            return False
        spec = current.spec if current.metadata.name else None
        renewed = lease.held_by(self._identity, spec, self._settings.lease_duration_seconds, self._now())
        try:
            await self._put(api, renewed, current.metadata.resource_version)
        except (errors.Conflict, errors.AlreadyExists):
            return False  # another candidate was faster; the next attempt observes it
        self._observed = lease.ObservedLease(renewed, self._clock())
        return True

    async def _put(self, api: session.Session, spec: lease.LeaseSpec, version: str) -> None:
        name, namespace = self._settings.lease, self._settings.namespace
        document = lease.body(name, namespace, spec, version)
        if version:
            await objects.replace(api, resources.LEASES, name, document, namespace=namespace, decode=lease.Lease)
        else:
            await objects.create(api, resources.LEASES, document, namespace=namespace, decode=lease.Lease)

    async def release(self, api: session.Session) -> None:
        """Release the Lease if this process holds it, so that the next leader need not wait for its expiry."""
        name, namespace = self._settings.lease, self._settings.namespace
        try:
            current = await objects.get(api, resources.LEASES, name, namespace=namespace, decode=lease.Lease)
            if current.spec.holder_identity == self._identity:
                await self._put(api, lease.released(current.spec, self._now()), current.metadata.resource_version)
                log.info("released lease %s", name)
        except errors.ApiServerError as error:
            log.warning("cannot release lease %s, candidates wait until it expires: %s", name, error)
