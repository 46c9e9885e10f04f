"""The webhook as a process: certificate, server, probes."""

from __future__ import annotations

import asyncio
import gc
import logging
import random
import signal
import ssl
import threading
import time
from typing import Final

from prometheus_client import CollectorRegistry, PlatformCollector, ProcessCollector

from apiserver_client import backoff, connection, errors, session
from component_base import clock, http_endpoint
from component_base.http_endpoint import ProbeResult
from manager.cache.kopf_thread import KopfThread
from manager.cli.admission import webhook
from manager.cli.admission.certificate_store import CertificateStore
from manager.cli.admission.settings import AdmissionSettings

_COLLECT_AFTER_OBJECTS: Final = 50_000
"""Some 20 reviews: the objects of kopf for a review refer to one another, and collections in between delay pods."""
_USER_AGENT: Final = "koord-admission"
_EXIT_SECONDS: Final = 10.0
_DRAIN_SECONDS: Final = 5.0
"""Time from a signal to the end, in which the Service stops sending reviews here: one that is refused has no limits."""

log = logging.getLogger(__name__)


class AdmissionProgram:
    """One replica. Each of them serves."""

    def __init__(self, settings: AdmissionSettings, to: connection.Connection) -> None:
        self._settings = settings
        self._to = to
        self._listening = threading.Event()
        self._ending = asyncio.Event()
        self._thread: KopfThread | None = None
        self._checked_seconds = time.monotonic()
        self._problem = "the certificate has not been read yet"
        registry = CollectorRegistry()
        for collector in (PlatformCollector, ProcessCollector):
            collector(registry=registry)
        self._endpoint = http_endpoint.HttpEndpoint(
            settings.http_address, settings.http_port, health=self._health, ready=self._ready, registry=registry
        )

    def run(self) -> int:
        """Run until SIGTERM or SIGINT; return the exit code. Raises CannotListen."""
        self._endpoint.start()
        try:
            asyncio.run(self._serve())
        finally:
            self._endpoint.stop()
        return 0

    async def _serve(self) -> None:
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, self._ending.set)
        async with session.connect(self._to, user_agent=_USER_AGENT) as api:
            context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
            certificates = CertificateStore(api, self._settings, context, clock.utc_now)
            has_certificate = asyncio.Event()
            checks = asyncio.create_task(self._check(certificates, has_certificate))
            waits = {asyncio.create_task(event.wait()) for event in (has_certificate, self._ending)}
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            if not self._ending.is_set():
                await self._answer_reviews(context)
            for task in (checks, *waits):
                task.cancel()
            await asyncio.wait({checks, *waits})

    async def _answer_reviews(self, context: ssl.SSLContext) -> None:
        """Answer reviews until some seconds after a signal."""
        gc.collect()
        gc.freeze()  # a full collection covers what the imports made too, which takes 20 ms
        gc.set_threshold(_COLLECT_AFTER_OBJECTS)
        log.info("serving %s on port %d", self._settings.host, self._settings.port)
        server = webhook.AdmissionServer(self._settings.port, context, self._listening.set)
        self._thread = webhook.new_thread(self._to, self._settings, server)
        self._thread.start()
        await self._ending.wait()
        if self._listening.is_set():
            log.info("ending in %.0f s, when no review comes here anymore", _DRAIN_SECONDS)
            await asyncio.sleep(_DRAIN_SECONDS)
        self._thread.stop.set()
        await asyncio.to_thread(self._thread.join, _EXIT_SECONDS)

    async def _check(self, certificates: CertificateStore, has_certificate: asyncio.Event) -> None:
        """Check the certificate at an interval, and sooner after an error."""
        attempt = 0
        while True:
            seconds = self._settings.certificate_check_seconds
            try:
                await certificates.check()
            except (errors.ApiServerError, OSError) as error:
                seconds = min(seconds, backoff.DEFAULT.seconds(attempt, random.random))
                attempt += 1
                self._problem = f"certificate: {error}"
                log.warning("cannot check the certificate: %s; retrying in %.0f s", error, seconds)
            else:
                attempt, self._problem = 0, ""
                has_certificate.set()
            self._checked_seconds = time.monotonic()
            await asyncio.sleep(seconds)

    def _health(self) -> ProbeResult:
        silence = time.monotonic() - self._checked_seconds
        if silence > 2 * self._settings.certificate_check_seconds + 120:
            return ProbeResult(False, f"the certificate was checked {silence:.0f} s ago")
        if self._thread is not None and not self._thread.is_alive() and not self._ending.is_set():
            return ProbeResult(False, "kopf has ended: no review is answered")
        return ProbeResult(True, "alive")

    def _ready(self) -> ProbeResult:
        if self._ending.is_set():
            return ProbeResult(False, "the server ends")
        if not self._listening.is_set():
            return ProbeResult(False, self._problem or "the server starts")
        return ProbeResult(True, "serving")
