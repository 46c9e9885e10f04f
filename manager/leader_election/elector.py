"""One process's standing for the Lease: a look at it takes, renews or loses it. It owns neither thread nor clock.

Whoever cannot renew for `renew_deadline` may not write any more, though others must wait for `lease_duration`: that is
asked before each write, because a process that was frozen does not know that time has passed.
"""

from __future__ import annotations

import datetime as dt
import enum
import logging
from collections.abc import Callable

from apiserver_client import errors, objects, resources, session
from manager.leader_election import lease
from manager.settings import ManagerSettings

log = logging.getLogger(__name__)


class Role(enum.Enum):
    """What this process is."""

    STANDBY = "standby"
    LEADER = "leader"
    LOST = "lost"
    STOPPED = "stopped"


class LeaderElector:
    """`clock` gives monotonic seconds, `now` aware time. Reading is safe from any thread."""

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
        self._settings = settings
        self._identity = identity
        self._clock = clock
        self._now = now
        self._sighting: lease.Sighting | None = None
        self._last_answer = self._renewed_at = clock()

    def may_write(self) -> bool:
        """Whether nobody else can be leading now."""
        return self.role is Role.LEADER and not self._is_overdue()

    def silence_seconds(self) -> float:
        """Time since the apiserver last answered about the Lease."""
        return self._clock() - self._last_answer

    async def look(self, api: session.Session) -> Role:
        """Look at the Lease once and do what is needed; gives the role that follows."""
        asked_at = self._clock()
        try:
            ours = await self._look(api)
        except errors.ApiServerError as error:
            if str(error) != self.last_error:
                log.warning("cannot look after the Lease: %s", error)
            self.last_error = str(error)
            ours = False
        else:
            self._last_answer = self._clock()
            self.last_error = None
        if ours:
            self._renewed_at = asked_at
            self.role = Role.LEADER
        elif self.role is Role.LEADER and (self._is_taken() or self._is_overdue()):
            self.role = Role.LOST
        return self.role

    def _is_overdue(self) -> bool:
        return self._clock() - self._renewed_at > self._settings.renew_deadline_seconds

    def _is_taken(self) -> bool:
        return self._sighting is not None and self._sighting.spec.holder_identity not in (None, self._identity)

    async def _look(self, api: session.Session) -> bool:
        """Read the Lease and write it where it is ours or free; whether it is ours afterwards."""
        name, namespace = self._settings.lease, self._settings.namespace
        try:
            current = await objects.get(api, resources.LEASES, name, namespace=namespace, decode=lease.Lease)
        except errors.NotFound:
            current = lease.Lease()
        self._sighting = lease.sight(self._sighting, current.spec, self._clock())
        ours = current.spec.holder_identity == self._identity
        if not ours and (self.role is Role.LEADER or not lease.is_free(self._sighting, self._clock())):
            return False
        spec = current.spec if current.metadata.name else None
        wanted = lease.held(spec, self._identity, self._settings.lease_duration_seconds, self._now())
        try:
            await self._put(api, wanted, current.metadata.resource_version)
        except (errors.Conflict, errors.AlreadyExists):
            return False  # somebody was faster; the next look shows who
        self._sighting = lease.Sighting(wanted, self._clock())
        return True

    async def _put(self, api: session.Session, spec: lease.LeaseSpec, version: str) -> None:
        name, namespace = self._settings.lease, self._settings.namespace
        document = lease.body(name, namespace, spec, version)
        if version:
            await objects.replace(api, resources.LEASES, name, document, namespace=namespace, decode=lease.Lease)
        else:
            await objects.create(api, resources.LEASES, document, namespace=namespace, decode=lease.Lease)

    async def release(self, api: session.Session) -> None:
        """Give the Lease up, if it is ours, so that nobody has to wait for its end."""
        name, namespace = self._settings.lease, self._settings.namespace
        try:
            current = await objects.get(api, resources.LEASES, name, namespace=namespace, decode=lease.Lease)
            if current.spec.holder_identity == self._identity:
                await self._put(api, lease.given_up(current.spec, self._now()), current.metadata.resource_version)
                log.info("gave the Lease up")
        except errors.ApiServerError as error:
            log.warning("cannot give the Lease up, others wait until it expires: %s", error)
