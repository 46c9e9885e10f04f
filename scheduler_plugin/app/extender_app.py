"""Run the process beside kube-scheduler: the server that it calls, the watches, probes, metrics and debug pages.

kube-scheduler calls the extender over HTTP, or its plugin KoordSuite asks over a Unix socket (`--plugin-socket`).
"""

from __future__ import annotations

import asyncio
import gc
import logging
import signal
import time
from collections.abc import Coroutine
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final, NamedTuple

from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector

from apiserver_client import session, watching
from component_base import http_endpoint, listening, tasks
from scheduler_plugin.app import metrics
from scheduler_plugin.app.debug_pages import DebugPages
from scheduler_plugin.assembly import Parts
from scheduler_plugin.config.loader import PluginConfiguration
from scheduler_plugin.extender.tls import TlsFiles
from scheduler_plugin.kube_scheduler.server import PluginServer, Profile
from scheduler_plugin.load_watcher.database import Database
from scheduler_plugin.plugins.trimaran.feed import MeasurementFeed
from scheduler_plugin.settings import SchedulerPluginSettings
from scheduler_plugin.state import informer
from scheduler_plugin.state.mid_watches import EmergencyWatch, NamespaceWatch

log = logging.getLogger(__name__)

_MEASUREMENTS_KEPT_SECONDS: Final = 3600.0
_HEARTBEAT_SECONDS: Final = 1.0
_SYNC_POLL_SECONDS: Final = 0.05
_STUCK_SECONDS: Final = 10.0  # a healthy event loop is blocked for milliseconds at most


class Ports(NamedTuple):
    """Ports of one process."""

    verbs: int
    probes: int
    debug_pages: int


class ExtenderApp:
    """The running process."""

    def __init__(self, settings: SchedulerPluginSettings, configuration: PluginConfiguration) -> None:
        self._settings = settings
        self._configuration = configuration
        self._parts = Parts(
            configuration,
            measurement_age_seconds=settings.measurement_age_seconds,
            record_bytes=settings.decision_record_mebibytes * 1024**2,
        )
        self._watches = informer.new_watches(with_pods=settings.plugin_socket is None)
        self._namespaces = watching.WatchState()
        self._registry = CollectorRegistry()
        verbs = metrics.VERBS if settings.plugin_socket is None else metrics.QUESTIONS
        self._requests = metrics.RequestMetrics(self._registry, verbs)
        self._plugin_server = self._new_plugin_server()
        self._began_at = self._beat_at = time.monotonic()
        self._stop = asyncio.Event()
        self._ports: Ports | None = None
        for default in (ProcessCollector, PlatformCollector, GCCollector):
            default(registry=self._registry)
        for collector in self._parts.collectors():
            self._registry.register(collector)
        watches = self._watches._asdict() | ({"namespaces": self._namespaces} if self._parts.holds_quotas else {})
        self._registry.register(metrics.StateCollector(self._parts.cluster, watches))

    def _new_plugin_server(self) -> PluginServer | None:
        """Return the server of the plugin inside kube-scheduler; None for the extender."""
        path, parts = self._settings.plugin_socket, self._parts
        if path is None:
            return None
        return PluginServer(
            Path(path),
            [Profile("", parts.answers, parts.refused, self._unsynced)],
            observe=lambda question, seconds: self._requests.observe(question, HTTPStatus.OK, seconds),
        )

    async def run(self) -> None:
        """Serve until SIGTERM or SIGINT. Raises CannotListen, NoCredentials, UnusableCertificate."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.stop)
        endpoint = self._endpoint(loop)
        async with session.open_session(self._settings.kubeconfig or None, user_agent="koord-scheduler-plugin") as api:
            endpoint.start()
            try:
                if self._plugin_server is not None:
                    await self._serve_plugin(self._plugin_server, api, endpoint)
                else:
                    await self._serve_extender(api, endpoint)
            finally:
                endpoint.stop()

    def _work(self, api: session.Session) -> list[Coroutine[Any, Any, None]]:
        """Return what runs in both modes."""
        parts = self._parts
        shown = None if self._plugin_server is not None else lambda pod: parts.extender.shown(pod, time.time())
        work = [
            informer.Informer(api, parts.cluster, self._watches, shown).run(),
            EmergencyWatch(api, parts.vectors, self._settings.manager_namespace or api.namespace).run(),
            self._housekeeping(),
        ]
        if parts.holds_quotas:
            work.append(NamespaceWatch(api, parts.vectors.mid_quotas, self._namespaces).run())
        if (measuring := self._measuring(api)) is not None:
            work.append(measuring)
        return work

    async def _serve_plugin(
        self, server: PluginServer, api: session.Session, endpoint: http_endpoint.HttpEndpoint
    ) -> None:
        try:
            await server.start()
            self._ports = Ports(0, endpoint.port, endpoint.debug_port)
            log.info("serving kube-scheduler on %s, probes on port %d", self._settings.plugin_socket, endpoint.port)
            await tasks.run([*self._work(api), server.wake()], self._stop)
        finally:
            await server.stop()

    async def _serve_extender(self, api: session.Session, endpoint: http_endpoint.HttpEndpoint) -> None:
        from scheduler_plugin.extender.server import ExtenderServer  # noqa: PLC0415  # aiohttp takes 12 MiB

        settings, extender = self._settings, self._parts.extender
        tls = self._tls()
        server = ExtenderServer(
            settings.extender_address,
            settings.extender_port,
            {"filter": extender.filter, "prioritize": extender.prioritize, "preempt": extender.preempt},
            unsynced=self._unsynced,
            observe=self._requests.observe,
            tls=tls,
        )
        try:
            await server.start()
            self._ports = Ports(server.port, endpoint.port, endpoint.debug_port)
            log.info(
                "serving kube-scheduler on %s, probes and metrics on port %d",
                listening.host_and_port(settings.extender_address, server.port),
                endpoint.port,
            )
            await tasks.run([*self._work(api), *([server.follow_certificate()] if tls else [])], self._stop)
        finally:
            await server.stop()

    def _unsynced(self) -> list[str]:
        """Return the watches whose first list is awaited; that of Namespaces only while it does not fail.

        Without the permission for it Mid pods alone are refused, and the reason at each of them names it.
        """
        namespaces = self._namespaces
        awaits = self._parts.holds_quotas and not namespaces.synced and not namespaces.last_error
        return [*self._watches.unsynced(), *(["namespaces"] if awaits else [])]

    def ports(self) -> Ports | None:
        """Return the ports of the process; None before it listens."""
        return self._ports

    def stop(self) -> None:
        """End `run` after the current call."""
        self._stop.set()

    def _tls(self) -> TlsFiles | None:
        """Return the TLS files; None without any, for a kube-scheduler in the same pod."""
        settings = self._settings
        if settings.extender_tls_cert_file is None or settings.extender_tls_key_file is None:
            return None
        return TlsFiles(
            settings.extender_tls_cert_file, settings.extender_tls_key_file, settings.extender_tls_client_ca_file
        )

    def _measuring(self, api: session.Session) -> Coroutine[Any, Any, None] | None:
        """Return the task that refreshes measurements; None if no plugin reads them."""
        parts = self._parts
        if not parts.provider_specs:
            return None
        file = self._settings.measurement_file
        measured = MeasurementFeed(
            parts.provider_specs,
            parts.measurements,
            parts.measured,
            parts.cluster,
            time.time,
            database=Database(Path(file), _MEASUREMENTS_KEPT_SECONDS) if file else None,
        )
        return self._measure(measured, api)

    async def _measure(self, measured: MeasurementFeed, api: session.Session) -> None:
        """Wait for the first lists, then run: a refresh without nodes is empty, and the next one comes 30 s later."""
        while self._unsynced():  # noqa: ASYNC110  # once, at the start
            await asyncio.sleep(_SYNC_POLL_SECONDS)
        await measured.run(api, self._registry, self._settings.measurement_interval_seconds)

    async def _housekeeping(self) -> None:
        """Record the heartbeat, expire pods, and freeze the garbage collector after the first lists."""
        frozen = False
        while True:
            self._beat_at = time.monotonic()
            try:
                self._parts.cluster.expire_assumed()
                self._parts.waits.expire(time.monotonic())
                self._check_blindness()
            except Exception:
                log.exception("cannot expire assumed pods and waits; trying again")
            if not frozen and not self._unsynced():
                gc.collect()
                gc.freeze()
                frozen = True
                log.info("ready: %s", self._parts.cluster.counts())
            await asyncio.sleep(_HEARTBEAT_SECONDS)

    def _check_blindness(self) -> None:
        """Let expired nodes pass while this process does not see the reports, and log each change."""
        seen_at, before = self._watches.node_metrics.last_activity, self._parts.vectors.blindness
        cause = self._parts.check_blindness(None if seen_at is None else time.monotonic() - seen_at, time.time())
        if cause and not before:
            log.warning("nodes with expired reports pass: %s", cause)
        elif before and not cause:
            log.info("nodes with expired reports are rejected again: reports arrive")

    def _endpoint(self, loop: asyncio.AbstractEventLoop) -> http_endpoint.HttpEndpoint:
        return http_endpoint.HttpEndpoint(
            self._settings.http_address,
            self._settings.http_port,
            health=self._health,
            ready=self._ready,
            registry=self._registry,
            probes={"/startupz": self._started},
            debug_port=self._settings.debug_port,
            debug_routes=DebugPages(self._parts, self._configuration, loop).routes(),
        )

    def _health(self) -> http_endpoint.ProbeResult:
        silent = time.monotonic() - self._beat_at
        return http_endpoint.ProbeResult(silent < _STUCK_SECONDS, f"event loop last seen {silent:.1f} s ago")

    def _ready(self) -> http_endpoint.ProbeResult:
        waiting_for = self._unsynced()
        text = f"waiting for the first list of {', '.join(waiting_for)}" if waiting_for else "caches are synced"
        if self._plugin_server is not None and not self._plugin_server.is_synced and not waiting_for:
            waiting_for, text = ["pods"], "waiting for kube-scheduler to connect and to show all pods"
        if not waiting_for and self._parts.vectors.blindness:
            text = f"{text}; nodes with expired reports pass: {self._parts.vectors.blindness}"
        return http_endpoint.ProbeResult(not waiting_for, text)

    def _started(self) -> http_endpoint.ProbeResult:
        """Return the state of the startup probe, for which kube-scheduler waits: ready, or waited long enough.

        A missing CRD must not keep kube-scheduler from starting.
        """
        ready = self._ready()
        if self._plugin_server is not None and not self._unsynced():
            return http_endpoint.ProbeResult(True, ready.text)  # kube-scheduler starts behind this probe
        waited = time.monotonic() - self._began_at
        if ready.ok or waited < self._settings.startup_patience_seconds:
            return ready
        return http_endpoint.ProbeResult(True, f"{ready.text}; started without it after {waited:.0f} s")
