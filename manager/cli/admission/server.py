"""The server that hands reviews to kopf, by kopf's interface for a server of one's own: all of it is bounded."""

from __future__ import annotations

import asyncio
import functools
import json
import logging
import re
import socket
import ssl
import time
from asyncio import sslproto
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any, Final

import kopf
from aiohttp import web

from component_base import listening
from manager.cli.admission import config_review

log = logging.getLogger(__name__)

HANDLER, OPT_IN_HANDLER = "mid-limits", "mid-namespaces"
"""Ids of the handlers of pods, and their paths in the webhook configuration of the chart."""
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
    path = request.match_info["path"]
    webhook = path if path in (config_review.HANDLER, OPT_IN_HANDLER) else HANDLER
    is_of_pod = webhook != config_review.HANDLER
    size = request.content_length or 0
    if is_of_pod and _LARGEST_BYTES < size <= _LARGEST_READ_BYTES:
        head = await request.content.read(_HEAD_BYTES)
        async for _ in request.content.iter_any():
            pass
        why = f"of {size} bytes cannot get its limits, want at most {_LARGEST_BYTES} bytes: shorten its texts"
        return _refused(head, 413, why)
    body = await request.read()
    try:
        review = json.loads(body)
        if not is_of_pod and _is_of(review, "UPDATE"):
            review["request"]["operation"] = "CREATE"
        if not _is_of(review, "CREATE"):
            return web.Response(status=400, text="want a review of the creation of a pod, or of a ConfigMap")
        return web.json_response(await fn(review, webhook=webhook))
    except (RecursionError, ValueError) as error:
        log.warning("cannot read a review: %s", error)
        head = body[:_HEAD_BYTES] if is_of_pod else b""  # an edit that cannot be read here passes
        return _refused(head, 400, f"that cannot be read cannot get its limits: {error}")


def _is_of(review: Any, operation: str) -> bool:
    request = review.get("request") if isinstance(review, dict) else None
    return isinstance(request, dict) and request.get("operation") == operation


def _refused(head: bytes, code: int, why: str) -> web.Response:
    uid = _UID.search(head)
    if uid is None:
        return web.Response(status=code)
    status = {"code": code, "message": f"a koord-mid pod {why}"}
    return web.json_response({
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "response": {"uid": uid[1].decode(), "allowed": False, "status": status},
    })  # fmt: skip
