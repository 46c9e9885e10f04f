"""Run the process beside kube-scheduler: the server that it calls, the watches, probes, metrics and debug pages.

kube-scheduler calls the extender over HTTP, or its plugin KoordSuite asks over a Unix socket (`--plugin-socket`).
"""

from __future__ import annotations

import asyncio
import gc
import logging
import signal
import time
from collections.abc import Mapping
from http import HTTPStatus
from pathlib import Path
from typing import Final, NamedTuple

from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector

from apiserver_client import session
from component_base import http_endpoint, listening, tasks
from scheduler_plugin.app import metrics
from scheduler_plugin.app.debug_pages import DebugPages
from scheduler_plugin.app.profile import ProfilesCollector, ProfileState
from scheduler_plugin.config import loader
from scheduler_plugin.config.loader import PluginConfiguration
from scheduler_plugin.extender.tls import TlsFiles
from scheduler_plugin.kube_scheduler.server import PluginServer, Profile
from scheduler_plugin.settings import SchedulerPluginSettings

log = logging.getLogger(__name__)

_HEARTBEAT_SECONDS: Final = 1.0
_STUCK_SECONDS: Final = 10.0  # a healthy event loop is blocked for milliseconds at most


class Ports(NamedTuple):
    """Ports of one process."""

    verbs: int
    probes: int
    debug_pages: int


class ExtenderApp:
    """The running process."""

    def __init__(self, settings: SchedulerPluginSettings, configurations: Mapping[str, PluginConfiguration]) -> None:
        """Prepare the profiles, by name; the extender has one. Raises InvalidConfiguration."""
        if settings.plugin_socket is None:
            configurations = {"": loader.only(configurations)}
        self._settings = settings
        self._configurations = configurations
        self._profiles = [ProfileState(name, settings, configuration) for name, configuration in configurations.items()]
        self._registry = CollectorRegistry()
        verbs = metrics.VERBS if settings.plugin_socket is None else metrics.QUESTIONS
        self._requests = metrics.RequestMetrics(self._registry, verbs)
        self._plugin_server = self._new_plugin_server()
        self._began_at = self._beat_at = time.monotonic()
        self._stop = asyncio.Event()
        self.ports: Ports | None = None
        """None before it listens."""
        for default in (ProcessCollector, PlatformCollector, GCCollector):
            default(registry=self._registry)
        self._registry.register(ProfilesCollector(self._profiles))

    def _new_plugin_server(self) -> PluginServer | None:
        """Return the server of the plugin inside kube-scheduler; None for the extender."""
        path = self._settings.plugin_socket
        if path is None:
            return None
        return PluginServer(
            Path(path),
            [
                Profile(profile.name, profile.parts.answers, profile.parts.refused, profile.awaited)
                for profile in self._profiles
            ],
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

    async def _serve_plugin(
        self, server: PluginServer, api: session.Session, endpoint: http_endpoint.HttpEndpoint
    ) -> None:
        try:
            await server.start()
            self.ports = Ports(0, endpoint.port, endpoint.debug_port)
            log.info("serving kube-scheduler on %s, probes on port %d", self._settings.plugin_socket, endpoint.port)
            work = [task for profile in self._profiles for task in profile.work(api, None)]
            await tasks.run([*work, self._housekeeping(), server.wake()], self._stop)
        finally:
            await server.stop()

    async def _serve_extender(self, api: session.Session, endpoint: http_endpoint.HttpEndpoint) -> None:
        from scheduler_plugin.extender.server import ExtenderServer  # noqa: PLC0415  # aiohttp takes 12 MiB

        (profile,) = self._profiles
        settings, extender = self._settings, profile.parts.extender
        tls = self._tls()
        server = ExtenderServer(
            settings.extender_address,
            settings.extender_port,
            {"filter": extender.filter, "prioritize": extender.prioritize, "preempt": extender.preempt},
            unsynced=profile.awaited,
            observe=self._requests.observe,
            tls=tls,
        )
        try:
            await server.start()
            self.ports = Ports(server.port, endpoint.port, endpoint.debug_port)
            log.info(
                "serving kube-scheduler on %s, probes and metrics on port %d",
                listening.host_and_port(settings.extender_address, server.port),
                endpoint.port,
            )
            work = profile.work(api, lambda pod: extender.shown(pod, time.time()))
            work += [self._housekeeping(), *([server.follow_certificate()] if tls else [])]
            await tasks.run(work, self._stop)
        finally:
            await server.stop()

    def _unsynced(self) -> list[str]:
        return sorted({watch for profile in self._profiles for watch in profile.unsynced()})

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

    async def _housekeeping(self) -> None:
        """Record the heartbeat, expire pods, and freeze the garbage collector after the first lists."""
        frozen = False
        while True:
            self._beat_at = time.monotonic()
            try:
                for profile in self._profiles:
                    profile.expire()
            except Exception:
                log.exception("cannot expire assumed pods and waits; trying again")
            if not frozen and not self._unsynced():
                gc.collect()
                gc.freeze()
                frozen = True
                log.info("ready: %s", self._profiles[0].parts.cluster.counts())
            await asyncio.sleep(_HEARTBEAT_SECONDS)

    def _endpoint(self, loop: asyncio.AbstractEventLoop) -> http_endpoint.HttpEndpoint:
        return http_endpoint.HttpEndpoint(
            self._settings.http_address,
            self._settings.http_port,
            health=self._health,
            ready=self._ready,
            registry=self._registry,
            probes={"/startupz": self._started},
            debug_port=self._settings.debug_port,
            debug_routes=DebugPages(
                [profile.parts for profile in self._profiles],
                self._configurations,
                loop,
                "extender" if self._plugin_server is None else "plugin",
            ).routes(),
        )

    def _health(self) -> http_endpoint.ProbeResult:
        silent = time.monotonic() - self._beat_at
        return http_endpoint.ProbeResult(silent < _STUCK_SECONDS, f"event loop last seen {silent:.1f} s ago")

    def _ready(self) -> http_endpoint.ProbeResult:
        waiting_for = self._unsynced()
        text = f"waiting for the first list of {', '.join(waiting_for)}" if waiting_for else "caches are synced"
        if self._plugin_server is not None and not self._plugin_server.is_synced and not waiting_for:
            waiting_for, text = ["pods"], "waiting for kube-scheduler to connect and to show all pods"
        blindness = next(filter(None, (profile.parts.vectors.blindness for profile in self._profiles)), "")
        if not waiting_for and blindness:
            text = f"{text}; nodes with expired reports pass: {blindness}"
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
