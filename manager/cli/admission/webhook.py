"""The admission webhook as a process: kopf's handlers of new pods and of edits of the configuration, server, probes.

kopf's own management of webhook configurations stays off: the chart writes the configuration, so that the process may
change one object of that kind and create none.
"""

from __future__ import annotations

import asyncio
import functools
import gc
import json
import logging
import random
import re
import signal
import socket
import ssl
import threading
import time
from asyncio import sslproto
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import kopf
from aiohttp import web
from prometheus_client import CollectorRegistry, Gauge, PlatformCollector, ProcessCollector

from api_types.mid_pods import template
from apiserver_client import backoff, connection, errors, session
from component_base import clock, http_endpoint, listening
from component_base.http_endpoint import ProbeResult
from manager.cache import kopf_thread
from manager.cache.kopf_thread import KopfThread
from manager.cli.admission import config_review
from manager.cli.admission.certificate import CertificateStore
from manager.cli.admission.settings import AdmissionSettings

log = logging.getLogger(__name__)

HANDLER: Final = "mid-limits"
"""Id of the handler, and the path in the webhook configuration of the chart."""
_FAILED: Final = "this koord-mid pod gets no limits: the webhook failed; its log has the error"
_EXAMPLE: Final[Any] = {
    "request": {
        "uid": "",
        "operation": "CREATE",
        "resource": {"group": "", "version": "v1", "resource": "pods"},
        "userInfo": {},
        "object": {"metadata": {}, "spec": {}},
    }
}
_LARGEST_BYTES: Final = 2**20
"""Largest review that is answered by the rules; a larger one is refused."""
_LARGEST_READ_BYTES: Final = 2**24
"""More than the API server sends: it stores 1.5 MiB of a pod, whose texts take six times as much in JSON at most."""
_HEAD_BYTES: Final = 4096
_UID: Final = re.compile(rb'"request"\s*:\s*\{\s*"uid"\s*:\s*"([0-9a-f-]{36})"')
"""The UID of a review, which the API server sends first."""
_ASK_AGAIN_SECONDS: Final = 0.05
MOST_CONNECTIONS: Final = 128
"""Connections at a time; the API servers of a cluster keep a few open. The newest beyond it is refused."""
_IDLE_SECONDS: Final = 15.0
_SWEEP_SECONDS: Final = 1.0
_TLS_BUFFER_BYTES: Final = 32 * 1024
"""asyncio allocates so much for a connection before its handshake, by default 256 KiB. A record of TLS has 16 KiB."""


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


@dataclass(eq=False)
class AdmissionServer:
    """Server of reviews, by kopf's interface for a server of one's own: bounded, and for kopf all are creations.

    Any pod of the cluster may open connections: at most MOST_CONNECTIONS are open at a time, and one without a whole
    request and its answer for `idle_seconds` is closed.

    It listens from when kopf can answer: before it has read the resources of the API, its answer would let a pod pass.
    kopf remembers the object of every other review for good, and any pod of the cluster may reach the port.
    """

    port: int
    context: ssl.SSLContext | None
    on_listening: Callable[[], None]
    host: str = listening.ALL_ADDRESSES
    idle_seconds: float = _IDLE_SECONDS
    _handshakes: set[asyncio.Task[None]] = field(default_factory=set)
    _used: dict[object, float] = field(default_factory=dict)
    """Time at which each connection was opened, or had its last request or answer."""
    _read_bytes: int = 0
    """Size of the reviews that are read now."""

    async def __call__(self, fn: kopf.WebhookFn) -> AsyncIterator[kopf.WebhookClientConfig]:
        """Serve reviews by `fn`; call `on_listening` once the port is open."""
        await _answered(fn)
        sslproto.SSLProtocol.max_size = _TLS_BUFFER_BYTES
        application = web.Application(client_max_size=_LARGEST_BYTES)
        application.router.add_post("/{path:.*}", functools.partial(self._answer, fn))
        runner = web.AppRunner(application, handle_signals=False, access_log=None, max_headers=32)
        await runner.setup()
        assert runner.server is not None
        fix = "stop the process that uses it, or set another --port"
        listener = listening.listen(self.host, self.port, purpose="reviews", fix=fix)
        work = [
            asyncio.create_task(each) for each in (self._accept(listener, runner.server), self._sweep(runner.server))
        ]
        try:
            self.on_listening()
            yield kopf.WebhookClientConfig()
            await asyncio.Event().wait()
        finally:
            for task in (*work, *self._handshakes):
                task.cancel()
            listener.close()
            await runner.cleanup()

    async def _accept(self, listener: socket.socket, server: web.Server) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                peer, _address = await loop.sock_accept(listener)
            except OSError as error:
                log.warning("cannot accept a connection: %s", error.strerror or error)
                await asyncio.sleep(_SWEEP_SECONDS)  # out of file descriptors: connections end meanwhile
                continue
            if len(server.connections) + len(self._handshakes) >= MOST_CONNECTIONS:
                peer.close()
                continue
            task = asyncio.create_task(self._begin(peer, server))
            self._handshakes.add(task)
            task.add_done_callback(self._handshakes.discard)

    async def _begin(self, peer: socket.socket, server: web.Server) -> None:
        """Serve an accepted connection, over TLS once its handshake is done."""
        limits = {"ssl_handshake_timeout": self.idle_seconds, "ssl_shutdown_timeout": 1.0} if self.context else {}
        try:
            await asyncio.get_running_loop().connect_accepted_socket(server, peer, ssl=self.context, **limits)
        except OSError as error:
            log.debug("a connection ended before its first request: %s", error)
            peer.close()

    async def _sweep(self, server: web.Server) -> None:
        """Close the connections that are idle, or whose client takes too long."""
        while True:
            await asyncio.sleep(_SWEEP_SECONDS)
            now = time.monotonic()
            self._used = {handler: self._used.get(handler, now) for handler in server.connections}
            for handler in server.connections:
                if now - self._used[handler] >= self.idle_seconds and handler.transport is not None:
                    handler.transport.abort()

    async def _answer(self, fn: kopf.WebhookFn, request: web.Request) -> web.Response:
        self._used[request.protocol] = time.monotonic()
        size = min(request.content_length or _LARGEST_BYTES, _LARGEST_BYTES)
        if self._read_bytes + size > _LARGEST_READ_BYTES:
            return web.Response(status=503)
        self._read_bytes += size
        try:
            return await _answer(fn, request)
        finally:
            self._read_bytes -= size
            self._used[request.protocol] = time.monotonic()


async def _answered(fn: kopf.WebhookFn) -> None:
    """Wait until `fn` answers a review."""
    while True:
        try:
            await fn(_EXAMPLE, webhook=HANDLER)
        except Exception as error:  # kopf publishes no class for it
            log.debug("kopf cannot answer yet: %s", error)
            await asyncio.sleep(_ASK_AGAIN_SECONDS)
        else:
            return


async def _answer(fn: kopf.WebhookFn, request: web.Request) -> web.Response:
    """Answer a request: a review that is too large or too deep with a refusal, as an error would let the pod pass."""
    webhook = config_review.HANDLER if request.match_info["path"] == config_review.HANDLER else HANDLER
    size = request.content_length or 0
    if webhook == HANDLER and _LARGEST_BYTES < size <= _LARGEST_READ_BYTES:
        head = await request.content.read(_HEAD_BYTES)
        async for _ in request.content.iter_any():
            pass
        why = f"of {size} bytes cannot get its limits, want at most {_LARGEST_BYTES} bytes: shorten its texts"
        return _refused(head, 413, why)
    body = await request.read()
    try:
        review = json.loads(body)
        if webhook == config_review.HANDLER and _is_of(review, "UPDATE"):
            review["request"]["operation"] = "CREATE"
        if not _is_of(review, "CREATE"):
            return web.Response(status=400, text="want a review of the creation of a pod, or of a ConfigMap")
        return web.json_response(await fn(review, webhook=webhook))
    except (RecursionError, ValueError) as error:
        log.warning("cannot read a review: %s", error)
        return _refused(body[:_HEAD_BYTES], 400, f"that cannot be read cannot get its limits: {error}")


def _is_of(review: Any, operation: str) -> bool:
    request = review.get("request") if isinstance(review, dict) else None
    return isinstance(request, dict) and request.get("operation") == operation


def _refused(head: bytes, code: int, why: str) -> web.Response:
    """Return the refusal of the pod of a review that begins with `head`."""
    uid = _UID.search(head)
    if uid is None:
        return web.Response(status=code)
    status = {"code": code, "message": f"a koord-mid pod {why}"}
    return web.json_response({
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "response": {"uid": uid[1].decode(), "allowed": False, "status": status},
    })  # fmt: skip


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
        """Answer reviews until some seconds after a signal."""
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
