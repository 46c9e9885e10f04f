"""The admission webhook as a process: kopf's handlers of new pods and of edits of the configuration, probes.

kopf's own management of webhook configurations stays off: the chart writes the configuration, so that the process may
change one object of that kind and create none.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import random
import signal
import ssl
import threading
import time
from collections.abc import Iterator, Mapping
from typing import Any, Final

import kopf
from prometheus_client import CollectorRegistry, Gauge, PlatformCollector, ProcessCollector

from api_types.mid_pods import profile, template
from apiserver_client import backoff, connection, errors, session
from component_base import clock, http_endpoint
from component_base.http_endpoint import ProbeResult
from manager.cache import kopf_thread
from manager.cache.kopf_thread import KopfThread
from manager.cli.admission import config_review
from manager.cli.admission.certificate import CertificateStore
from manager.cli.admission.server import HANDLER, OPT_IN_HANDLER, AdmissionServer
from manager.cli.admission.settings import AdmissionSettings

log = logging.getLogger(__name__)

_MADE_MID: Final = [
    {"op": "add", "path": f"/spec/{field}", "value": value}
    for field, value in profile.applied(profile.OPT_IN, {})["spec"].items()
]
_FAILED: Final = "this koord-mid pod gets no limits: the webhook failed; its log has the error"


def new_thread(
    to: connection.Connection, settings: AdmissionSettings, server: kopf.WebhookServerProtocol
) -> KopfThread:
    """Return kopf with the handler of new pods, behind a server."""
    chosen = kopf_thread.new_settings()
    chosen.admission.server = server
    return KopfThread(new_registry(to, settings), chosen, clusterwide=True)


def new_registry(to: connection.Connection, settings: AdmissionSettings) -> kopf.OperatorRegistry:
    """Return a registry with the handlers of new pods and of the ConfigMap."""
    registry = kopf_thread.new_registry(to)

    @kopf.on.mutate("", "v1", "pods", id=HANDLER, operations=["CREATE"], registry=registry)
    async def limit(body: kopf.Body, patch: kopf.Patch, warnings: list[str], **_: Any) -> None:
        try:
            operations, advice = limits(dict(body), settings.scheduler_name, native_limits=settings.native_limits)
        except Exception:  # kopf would refuse the pod
            log.exception("the rules for Mid pods failed for a new pod; it gets no limits")
            operations, advice = [], [_FAILED]
        # kopf would copy and compare the whole pod to find these, which takes longer than all the rest.
        patch.as_json_patch = lambda *_: operations  # type: ignore[method-assign,assignment]
        warnings.extend(advice)

    @kopf.on.mutate("", "v1", "pods", id=OPT_IN_HANDLER, operations=["CREATE"], registry=registry)
    async def opt_in(patch: kopf.Patch, **_: Any) -> None:
        patch.as_json_patch = lambda *_: _MADE_MID  # type: ignore[method-assign,assignment]

    config_review.add_handler(registry)
    return registry


def limits(
    pod: Mapping[str, Any], scheduler_name: str, *, native_limits: bool = True
) -> tuple[list[dict[str, Any]], list[str]]:
    """Return the operations of a JSON patch that applies the rules to a pod, and what its author is warned of."""
    admitted = template.admitted(pod, {}, (), scheduler_name, native_limits=native_limits)
    if admitted.refusal:
        return [], [f"this koord-mid pod gets no limits: {admitted.refusal}"]
    if not template.is_mid(pod):
        return [], []
    return list(_operations(pod["spec"], admitted.pod["spec"])), [
        f"koord-mid: {text}" for text in template.advice(admitted.pod)
    ]


def _operations(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield what differs between two specs; the rules change resources of containers and the scheduler's name."""
    for name in template.CONTAINER_LISTS:
        for index, (old, new) in enumerate(zip(before.get(name) or (), after.get(name) or (), strict=True)):
            if new.get("resources") != old.get("resources"):
                yield {"op": "add", "path": f"/spec/{name}/{index}/resources", "value": new["resources"]}
    if after.get("schedulerName") != before.get("schedulerName"):
        yield {"op": "add", "path": "/spec/schedulerName", "value": after["schedulerName"]}


_COLLECT_AFTER_OBJECTS: Final = 50_000
"""Some 20 reviews: the objects of kopf for a review refer to one another, and collections in between delay pods."""
_USER_AGENT: Final = "koord-admission"
_DRAIN_SECONDS: Final = 5.0
"""Time from a signal to the end, in which the Service stops sending reviews here: one that is refused has no limits."""


def certificate_gauge(registry: CollectorRegistry) -> Gauge:
    """Return the metric of the certificate."""
    text = "End of the certificate that this replica serves; it is renewed 90 days before."
    return Gauge("koord_admission_certificate_end_timestamp_seconds", text, registry=registry)


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
        self._certificate_end = certificate_gauge(registry)
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
        gc.collect()
        gc.freeze()  # a full collection covers what the imports made too, which takes 20 ms
        gc.set_threshold(_COLLECT_AFTER_OBJECTS)
        log.info("serving %s on port %d", self._settings.host, self._settings.port)
        server = AdmissionServer(self._settings.port, context, self._listening.set)
        self._thread = new_thread(self._to, self._settings, server)
        self._thread.start()
        await self._ending.wait()
        if self._listening.is_set():
            log.info("ending in %.0f s, when no review comes here anymore", _DRAIN_SECONDS)
            await asyncio.sleep(_DRAIN_SECONDS)
        await self._thread.end()

    async def _check(self, certificates: CertificateStore, has_certificate: asyncio.Event) -> None:
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
                self._certificate_end.set(certificates.end_seconds)
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
