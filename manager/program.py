"""The manager as a process: leader election, leader, probes and metrics."""

from __future__ import annotations

import asyncio
import gc
import logging
import signal
import socket
import threading
import uuid
from collections.abc import Iterator

import prometheus_client
from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector

from apiserver_client import connection
from component_base import http_endpoint
from manager import leader
from manager.lease import LeaderElection, Role
from manager.metrics.telemetry import Telemetry
from manager.mid_resource.reasons import Reason
from manager.settings import ManagerSettings
from manager.slo_config.evaluation import State

log = logging.getLogger(__name__)

_SIGNAL_POLL_SECONDS = 1.0


class Program:
    """One process: a candidate first, then the leader, until a signal comes or the Lease is lost."""

    def __init__(self, settings: ManagerSettings, to: connection.Connection) -> None:
        self._settings = settings
        self._to = to
        self._identity = f"{socket.gethostname()}_{uuid.uuid4()}"
        self._role_changed = threading.Event()
        self._stop = threading.Event()
        prometheus_client.disable_created_metrics()  # type: ignore[no-untyped-call]
        registry = CollectorRegistry()
        for collector in (GCCollector, PlatformCollector, ProcessCollector):
            collector(registry=registry)
        self._telemetry = Telemetry(registry, reasons=[*Reason], states=[*State])
        self._leadership = leader.Leadership()
        self._election = LeaderElection(to, settings, self._identity, self._on_role)
        self._elector = self._election.elector
        self._endpoint = http_endpoint.HttpEndpoint(
            settings.http_address, settings.http_port, health=self._health, ready=self._ready, registry=registry
        )

    def run(self) -> int:
        """Run until SIGTERM or SIGINT; return the exit code. Raises CannotListen."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: self._end())
        self._endpoint.start()
        failed = False
        log.info("candidate %s for lease %s at %s", self._identity, self._settings.lease, self._to.server)
        self._election.start()
        try:
            while not self._role_changed.wait(_SIGNAL_POLL_SECONDS):
                pass  # a signal that arrives just before a wait begins is handled when the wait ends
            if self._elector.role is Role.LEADER and not self._stop.is_set():
                failed = not self._lead()
        finally:
            lost = self._elector.role is Role.LOST
            self._election.stop()
            self._endpoint.stop()
        return int(lost or failed)

    def _lead(self) -> bool:
        log.info("leading")
        work = leader.lead(
            self._to, self._settings, self._telemetry, self._leadership, identity=self._identity,
            may_write=self._elector.may_write, stop=self._stop,
        )  # fmt: skip
        gc.freeze()  # a full collection stops the loop, and half of its objects are what the imports made
        try:
            asyncio.run(work)
        except Exception as failure:
            for reason in _leaves(failure):
                log.exception("exiting: unexpected error: %s: %s", type(reason).__name__, reason, exc_info=reason)
            return False
        return True

    def _end(self) -> None:
        self._stop.set()
        self._role_changed.set()

    def _on_role(self, role: Role) -> None:
        self._telemetry.leader.set(int(role is Role.LEADER))
        if role is Role.LOST:
            self._stop.set()
        self._role_changed.set()

    def _health(self) -> http_endpoint.ProbeResult:
        if not self._election.is_alive():
            return http_endpoint.ProbeResult(False, "the leader election has ended")
        if self._elector.role is Role.LEADER:
            trouble = self._leadership.trouble()
            if trouble is not None:
                return http_endpoint.ProbeResult(False, trouble)
        return http_endpoint.ProbeResult(True, f"alive as {self._elector.role.value}")

    def _ready(self) -> http_endpoint.ProbeResult:
        silence = self._elector.silence_seconds()
        if silence > self._settings.lease_duration_seconds:
            why = self._elector.last_error or "no response"
            return http_endpoint.ProbeResult(False, f"cannot reach the Lease for {silence:.0f} s: {why}")
        if self._elector.role is Role.LEADER and self._leadership.problem:
            return http_endpoint.ProbeResult(False, f"leader, not working: {self._leadership.problem}")
        return http_endpoint.ProbeResult(True, self._elector.role.value)


def _leaves(failure: BaseException) -> Iterator[BaseException]:
    """Yield the errors of a group, or the error itself."""
    if not isinstance(failure, BaseExceptionGroup):
        yield failure
        return
    for error in failure.exceptions:
        yield from _leaves(error)
