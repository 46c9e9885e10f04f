"""Leader election: the Lease, the state machine of one process, and the thread that runs it.

A process measures the age of another holder's Lease with its own monotonic clock only: the time since it observed the
last change of the record. Clocks of two machines are never compared. Source: Kubernetes documentation of Leases; the
same rules as client-go.

A leader that cannot renew within `renew_deadline` may not write any more, although other candidates wait for
`lease_duration`. `may_write` is checked before each write: a process that was suspended past its Lease has not noticed
the time that passed.

The elector has a thread with an event loop and a client of its own: a busy main loop delays no renewal. Each process is
a candidate under a new identity: a restarted process does not inherit the Lease. A process that has lost the Lease must
stop before another may lead: it exits, by force if it does not exit by itself.
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
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from api_types.kubernetes import times
from apiserver_client import connection, errors, objects, resources, session
from apiserver_client.decoding import EnvelopeMetadata
from component_base import clock
from manager.settings import ManagerSettings

log = logging.getLogger(__name__)


class LeaseSpec(msgspec.Struct, rename="camel", omit_defaults=True, frozen=True):
    """Record of the holder; times in RFC 3339 with microseconds."""

    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    acquire_time: str | None = None
    renew_time: str | None = None
    lease_transitions: int | None = None


class Lease(msgspec.Struct, frozen=True):
    """A Lease."""

    metadata: EnvelopeMetadata = EnvelopeMetadata()
    spec: LeaseSpec = LeaseSpec()


@dataclass(frozen=True)
class ObservedLease:
    """A record and the monotonic time at which this process first observed it."""

    spec: LeaseSpec
    since_seconds: float


def observe(before: ObservedLease | None, spec: LeaseSpec, now_seconds: float) -> ObservedLease:
    """Return the observation of a record; its age starts again when any field changed."""
    return before if before is not None and before.spec == spec else ObservedLease(spec, now_seconds)


def is_free(observed: ObservedLease, now_seconds: float) -> bool:
    """Check whether the Lease has no holder, or its holder has not renewed it for its own lease duration."""
    spec = observed.spec
    return not spec.holder_identity or now_seconds > observed.since_seconds + (spec.lease_duration_seconds or 0)


def held_by(identity: str, spec: LeaseSpec | None, duration_seconds: float, now: dt.datetime) -> LeaseSpec:
    """Return the record that makes `identity` the holder: a renewal if it is the holder already, else a transition."""
    time = times.format_micro_time(now)
    renewal = spec is not None and spec.holder_identity == identity
    transitions = (spec.lease_transitions or 0) if spec else 0
    return LeaseSpec(
        holder_identity=identity,
        lease_duration_seconds=max(round(duration_seconds), 1),
        acquire_time=spec.acquire_time if spec and renewal else time,
        renew_time=time,
        lease_transitions=transitions if renewal or spec is None else transitions + 1,
    )


def released(spec: LeaseSpec, now: dt.datetime) -> LeaseSpec:
    """Return the record without a holder, which any candidate may acquire at once."""
    time = times.format_micro_time(now)
    return LeaseSpec(
        holder_identity="",
        lease_duration_seconds=1,
        acquire_time=time,
        renew_time=time,
        lease_transitions=spec.lease_transitions,
    )


async def read(api: session.Session, namespace: str, name: str) -> Lease:
    """Read a Lease; return one without a name where there is none. Raises errors.ApiServerError."""
    try:
        return await objects.get(api, resources.LEASES, name, namespace=namespace, decode=Lease)
    except errors.NotFound:
        return Lease()


async def write(api: session.Session, namespace: str, name: str, spec: LeaseSpec, version: str) -> None:
    """Replace the version of a Lease that was read, create it without one. Raises errors.ApiServerError."""
    metadata = {"name": name, "namespace": namespace} | ({"resourceVersion": version} if version else {})
    kind = {"apiVersion": resources.LEASES.api_version, "kind": resources.LEASES.kind}
    document: dict[str, Any] = {**kind, "metadata": metadata, "spec": msgspec.to_builtins(spec)}
    if version:
        await objects.replace(api, resources.LEASES, name, document, namespace=namespace, decode=Lease)
    else:
        await objects.create(api, resources.LEASES, document, namespace=namespace, decode=Lease)


async def release(api: session.Session, namespace: str, name: str, identity: str, now: dt.datetime) -> bool:
    """Release a Lease, which any candidate may acquire at once then; return whether `identity` held it.

    Raises errors.ApiServerError.
    """
    current = await read(api, namespace, name)
    if current.spec.holder_identity != identity:
        return False
    await write(api, namespace, name, released(current.spec, now), current.metadata.resource_version)
    return True


REQUEST_PERIODS: Final = 2
"""Timeout of a request, in retry periods."""


class Role(enum.Enum):
    """State of this process in the election."""

    STANDBY = "standby"
    LEADER = "leader"
    LOST = "lost"
    STOPPED = "stopped"


@dataclass(eq=False)
class LeaderElector:
    """Candidate for the Lease; `clock` returns monotonic seconds, `now` aware time. Reads are thread-safe."""

    settings: ManagerSettings
    identity: str
    clock: Callable[[], float]
    now: Callable[[], dt.datetime]

    def __post_init__(self) -> None:
        self.role = Role.STANDBY
        self.last_error: str | None = None
        """Error of the last request for the Lease; None while requests succeed."""
        self._observed: ObservedLease | None = None
        self._last_response = self._renewed_at = self.clock()
        self._retry_after_seconds = 0.0

    def may_write(self) -> bool:
        """Check that no other process can be the leader now."""
        age_seconds = self.clock() - self._renewed_at
        return self.role is Role.LEADER and age_seconds <= self.settings.renew_deadline_seconds

    def silence_seconds(self) -> float:
        """Return the time since the apiserver last answered a request for the Lease."""
        return self.clock() - self._last_response

    def pause_seconds(self) -> float:
        """Return the time until the next attempt: as the apiserver asks, within what the Lease allows.

        A leader keeps the time of one more request before its deadline; a candidate waits for a lease duration at most.
        """
        period = self.settings.retry_period_seconds
        longest = float(self.settings.lease_duration_seconds)
        if self.role is Role.LEADER:
            deadline = self._renewed_at + self.settings.renew_deadline_seconds
            longest = deadline - self.clock() - period * REQUEST_PERIODS
        return max(period, min(self._retry_after_seconds, longest))

    async def try_acquire_or_renew(self, api: session.Session) -> Role:
        """Read the Lease, acquire or renew it where that is possible, and return the resulting role."""
        started_at = self.clock()
        try:
            is_holder = await self._acquire_or_renew(api)
        except errors.ApiServerError as error:
            if str(error) != self.last_error:
                log.warning("cannot acquire or renew lease %s: %s", self.settings.lease, error)
            self.last_error = str(error)
            self._retry_after_seconds = error.retry_after_seconds or 0.0
            is_holder = False
        else:
            self._last_response = self.clock()
            self.last_error = None
            self._retry_after_seconds = 0.0
        if is_holder:
            self._renewed_at = started_at
            self.role = Role.LEADER
        elif self.role is Role.LEADER:
            holder = self._observed.spec.holder_identity if self._observed else None
            if holder not in (None, self.identity) or not self.may_write():
                self.role = Role.LOST
        return self.role

    async def _acquire_or_renew(self, api: session.Session) -> bool:
        """Write the Lease where this process holds it or it is free; return whether this process is the holder."""
        name, namespace = self.settings.lease, self.settings.namespace
        current = await read(api, namespace, name)
        self._observed = observe(self._observed, current.spec, self.clock())
        is_holder = current.spec.holder_identity == self.identity
        if not is_holder and (self.role is Role.LEADER or not is_free(self._observed, self.clock())):
            return False
        spec = current.spec if current.metadata.name else None
        renewed = held_by(self.identity, spec, self.settings.lease_duration_seconds, self.now())
        try:
            await write(api, namespace, name, renewed, current.metadata.resource_version)
        except (errors.Conflict, errors.AlreadyExists):
            return False  # another candidate was faster; the next attempt observes it
        self._observed = ObservedLease(renewed, self.clock())
        return True

    async def release(self, api: session.Session) -> None:
        """Release the Lease if this process holds it, so that the next leader need not wait for its expiry."""
        name = self.settings.lease
        try:
            if await release(api, self.settings.namespace, name, self.identity, self.now()):
                log.info("released lease %s", name)
        except errors.ApiServerError as error:
            log.warning("cannot release lease %s, candidates wait until it expires: %s", name, error)


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
