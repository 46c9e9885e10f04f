"""Serve /healthz, /readyz, /metrics and the read-only debug pages of a process, by the standard library's server.

The server has threads of its own, so that a blocked event loop shows as unhealthy instead of as a time-out. Probes and
routes must therefore be safe to call from another thread: they read values and change nothing.

Any pod may connect. A connection serves one request, its head is small, and it is closed at its deadline; one too many
closes the oldest. So slow clients cost a bounded number of threads, and a probe, which sends at once, is answered.

Debug pages name pods and their usage and are expensive, so they have a port of their own on loopback: `kubectl exec`
and `kubectl port-forward` reach it, other pods and the apiserver's proxy do not.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import http.server
import io
import json
import logging
import math
import socket
import struct
import sys
import threading
import time
import urllib.parse
from collections.abc import Callable, Iterator, Mapping
from http import HTTPStatus
from typing import Any, Final, NamedTuple

import prometheus_client
from prometheus_client import exposition

from component_base import gauge_rows, listening
from component_base.listening import CannotListen

__all__ = ["CannotListen", "HttpEndpoint", "Page", "ProbeResult", "Route", "json_page", "probe_page"]

log = logging.getLogger(__name__)

LOOPBACK: Final = "127.0.0.1"
MOST_CONNECTIONS: Final = 32
_REQUEST_SECONDS: Final = 10.0
"""Deadline of a connection: the timeout of a scrape, and more than that of a probe."""
_DEBUG_SECONDS: Final = 60.0
_CHECK_SECONDS: Final = 2.0
"""Interval at which deadlines are checked. Each check wakes the process, which is a cost of an agent on every node."""
_MOST_HEAD_BYTES: Final = 8192
_HEAD_END: Final = b"\r\n\r\n"
_SEND_BUFFER_BYTES: Final = 64 * 1024
_KERNEL_QUEUE: Final = 1024
"""Connections that the kernel accepts for the server: it silently drops clients beyond them."""
_PAUSE_SECONDS: Final = 0.5
_WARNING_SECONDS: Final = 60.0
_MOST_IGNORED_READS: Final = 8
"""Reads of what a client sends beyond its request, such as a body: closed before, it might lose the answer."""
_RESET: Final = struct.pack("ii", 1, 0)
"""Value of SO_LINGER with which the kernel drops what the client has not read, instead of keeping it for minutes."""
_PIECE_CHARACTERS: Final = 64 * 1024
_MOST_NEW_BYTES_PER_SECOND: Final = 512 * 1024
"""Rate at which metrics are made: clients that do not read hold at most this times the deadline of a connection."""
_PAUSE_FACTOR: Final = 9.0
"""Metrics are kept this many times as long as their making took, so that it takes at most a tenth of a core."""


class Page(NamedTuple):
    """Response of a page. An iterator is requested piece by piece, as the client reads."""

    content_type: str
    body: bytes | Iterator[bytes]
    status: HTTPStatus = HTTPStatus.OK


Route = Callable[[Mapping[str, str]], Page]


class ProbeResult(NamedTuple):
    """Result of a probe, with a text for people."""

    ok: bool
    text: str


Probe = Callable[[], ProbeResult]


def json_page(value: Any) -> Page:
    """Return a page with a value as indented JSON, encoded piece by piece."""
    return Page("application/json", _json_pieces(value))


def _json_pieces(value: Any) -> Iterator[bytes]:
    texts: list[str] = []
    characters = 0
    for text in json.JSONEncoder(indent=2, default=str).iterencode(value):
        texts.append(text)
        characters += len(text)
        if characters > _PIECE_CHARACTERS:
            yield "".join(texts).encode()
            texts, characters = [], 0
    yield "".join([*texts, "\n"]).encode()


def probe_page(result: ProbeResult) -> Page:
    """Return the page of a result: status 200 when ok, 503 otherwise."""
    status = HTTPStatus.OK if result.ok else HTTPStatus.SERVICE_UNAVAILABLE
    return Page("text/plain; charset=utf-8", result.text.encode() + b"\n", status)


class HttpEndpoint:
    """Server of probes, metrics and pages; port 0 takes any free port (see the attributes after `start`).

    `probes` are further ones, by path. With `debug_routes` a second port, on loopback only, serves these.
    """

    def __init__(
        self,
        address: str,
        port: int,
        *,
        health: Probe,
        ready: Probe,
        registry: prometheus_client.CollectorRegistry,
        probes: Mapping[str, Probe] | None = None,
        routes: Mapping[str, Route] | None = None,
        debug_port: int = 0,
        debug_routes: Mapping[str, Route] | None = None,
    ) -> None:
        self.address = address
        self.port = port
        self.debug_port = debug_port
        probes = {"/healthz": health, "/readyz": ready, **(probes or {})}
        self._routes: dict[str, Route] = {
            **{path: _probe_route(probe) for path, probe in probes.items()},
            "/metrics": _Metrics(registry),
            **(routes or {}),
        }
        self._debug_routes = debug_routes or {}
        self._servers: list[_Server] = []

    def start(self) -> None:
        """Start to listen and serve. Raises CannotListen."""
        fix = "end the process that uses it or choose another port"
        opened = listening.listen(self.address, self.port, purpose="probes and metrics", fix=fix)
        servers = [_Server(opened, self._routes, _REQUEST_SECONDS)]
        self.port = servers[0].port
        if self._debug_routes:
            try:
                opened = listening.listen(LOOPBACK, self.debug_port, purpose="debug pages", fix=fix)
            except CannotListen:
                servers[0].server_close()
                raise
            servers.append(_Server(opened, self._debug_routes, _DEBUG_SECONDS))
            self.debug_port = servers[1].port
        self._servers = servers
        for server in servers:
            server.start()

    def stop(self) -> None:
        """Stop serving and free the ports."""
        servers, self._servers = self._servers, []
        for server in servers:
            server.stop()


class _Server(http.server.ThreadingHTTPServer):
    """Thread that accepts the connections of one port, and a thread for each of them."""

    daemon_threads = True

    def __init__(self, opened: socket.socket, routes: Mapping[str, Route], seconds: float) -> None:
        self.port: int = opened.getsockname()[1]
        super().__init__((LOOPBACK, self.port), _Handler, bind_and_activate=False)
        self.socket.close()
        self.socket = opened
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BUFFER_BYTES)  # inherited by each connection
        opened.listen(_KERNEL_QUEUE)
        self.routes = routes
        self._seconds = seconds
        self._opened_at: dict[socket.socket, float] = {}
        """Open connections, the oldest first."""
        self._lock = threading.Lock()
        self._free_threads = threading.BoundedSemaphore(2 * MOST_CONNECTIONS)
        """The thread of a closed connection ends a moment later."""
        self._stopping = False
        self._warn_at = -math.inf
        self._thread = threading.Thread(
            target=self.serve_forever, args=[_CHECK_SECONDS], name="http-endpoint", daemon=True
        )

    def start(self) -> None:
        """Start to serve."""
        self._thread.start()

    def stop(self) -> None:
        """Close all connections, and free the port and the thread."""
        self._stopping = True
        with contextlib.suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)  # wakes the thread
        self.shutdown()
        self._thread.join()
        self.server_close()
        self._close_oldest(keep=0)

    def get_request(self) -> tuple[socket.socket, Any]:
        """Accept a connection."""
        try:
            return super().get_request()
        except OSError as error:
            if not self._stopping and not isinstance(error, ConnectionError):
                if time.monotonic() >= self._warn_at:
                    log.warning("probes and metrics: cannot accept clients: %s", error)
                    self._warn_at = time.monotonic() + _WARNING_SECONDS
                time.sleep(_PAUSE_SECONDS)
            raise

    def process_request(self, request: Any, client_address: Any) -> None:
        """Serve a connection in a thread of its own; one too many closes the oldest."""
        self._close_oldest(keep=MOST_CONNECTIONS - 1)
        if not self._free_threads.acquire(timeout=_PAUSE_SECONDS):
            super().shutdown_request(request)
            return
        with self._lock:
            self._opened_at[request] = time.monotonic()
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Serve a connection, in its thread."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free_threads.release()

    def shutdown_request(self, request: Any) -> None:
        """Close a connection."""
        with self._lock:
            self._opened_at.pop(request, None)
        super().shutdown_request(request)

    def service_actions(self) -> None:
        """Close the connections whose deadline has passed."""
        self._close_oldest(keep=MOST_CONNECTIONS, opened_before=time.monotonic() - self._seconds)

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ARG002
        """Log an unexpected error; a connection that is lost or closed is worth no line of an operator."""
        level = logging.DEBUG if isinstance(sys.exc_info()[1], OSError) else logging.ERROR
        log.log(level, "connection of %s has ended", client_address[0], exc_info=sys.exc_info())

    def _close_oldest(self, *, keep: int, opened_before: float = -math.inf) -> None:
        with self._lock:
            surplus = max(len(self._opened_at) - keep, 0)
            closing = [
                request
                for position, (request, opened_at) in enumerate(self._opened_at.items())
                if position < surplus or opened_at < opened_before
            ]
            for request in closing:
                del self._opened_at[request]
                with contextlib.suppress(OSError):
                    request.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
                    request.shutdown(socket.SHUT_RDWR)  # its thread ends by that


class _Handler(http.server.BaseHTTPRequestHandler):
    """One connection, with one request."""

    server: _Server
    error_message_format = "%(message)s\n"
    error_content_type = "text/plain; charset=utf-8"
    default_request_version = "HTTP/1.0"  # an answer to what is no request has a head too

    def handle(self) -> None:
        """Answer the request, whose head is read first; then wait until the client has read the answer and closes."""
        head = b""
        while _HEAD_END not in head and len(head) < _MOST_HEAD_BYTES:
            piece = self.request.recv(_MOST_HEAD_BYTES - len(head))
            if not piece:
                return
            head += piece
        self.rfile = io.BytesIO(head)
        if _HEAD_END in head:
            self.close_connection = True
            self.handle_one_request()
        else:
            self.requestline, self.request_version, self.command = "", self.default_request_version, "GET"
            self.send_error(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, f"more than {_MOST_HEAD_BYTES} bytes")
        self.request.shutdown(socket.SHUT_WR)
        for _ in range(_MOST_IGNORED_READS):
            if not self.request.recv(_MOST_HEAD_BYTES):
                return

    def do_GET(self) -> None:
        """Answer with a page."""
        page = _page(self.server.routes, self.path)
        self.send_response_only(page.status)
        self.send_header("Content-Type", page.content_type)
        if isinstance(page.body, bytes):
            self.send_header("Content-Length", str(len(page.body)))
        self.end_headers()
        if self.command == "HEAD":
            return
        pieces = iter((page.body,)) if isinstance(page.body, bytes) else page.body
        while (piece := self._next(pieces)) is not None:
            self.wfile.write(piece)

    do_HEAD = do_POST = do_GET  # noqa: N815  # no page changes anything, and some clients use POST

    def _next(self, pieces: Iterator[bytes]) -> bytes | None:
        try:
            return next(pieces, None)
        except Exception:
            log.exception("the page %s failed on its way", self.path)
            self.request.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            self.request.close()  # resets the connection: the client must not take a part for the whole
            raise

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Log no access."""


def _text(text: str, status: HTTPStatus) -> Page:
    return Page("text/plain; charset=utf-8", text.encode(), status)


def _page(routes: Mapping[str, Route], target: str) -> Page:
    try:
        url = urllib.parse.urlsplit(target)
    except ValueError as error:
        return _text(f"not a URL: {error}\n", HTTPStatus.BAD_REQUEST)
    route, rest = _find(routes, url.path)
    if route is None:
        return _text(f"no such page; there are: {' '.join(sorted(routes))}\n", HTTPStatus.NOT_FOUND)
    try:
        return route({**dict(urllib.parse.parse_qsl(url.query)), "path": urllib.parse.unquote(rest)})
    except Exception:
        log.exception("the page %s failed", target)
        return _text("internal error, see the log\n", HTTPStatus.INTERNAL_SERVER_ERROR)


def _find(routes: Mapping[str, Route], path: str) -> tuple[Route | None, str]:
    """Return the route of a path, or of its longest prefix that ends in `/` (the rest is its query `path`)."""
    if path in routes:
        return routes[path], ""
    prefixes = [prefix for prefix in routes if prefix.endswith("/") and path.startswith(prefix)]
    if not prefixes:
        return None, ""
    prefix = max(prefixes, key=len)
    return routes[prefix], path[len(prefix) :]


def _probe_route(probe: Probe) -> Route:
    return lambda _query: probe_page(probe())


class _Metrics:
    """Page of a registry; clients that ask at the same time get the same bytes."""

    def __init__(self, registry: prometheus_client.CollectorRegistry) -> None:
        self._registry = registry
        self._making = threading.Lock()
        self._maker = concurrent.futures.ThreadPoolExecutor(1, thread_name_prefix="http-metrics")
        """One thread: the allocator keeps the memory of each thread that has made them once."""
        self._page = Page(exposition.CONTENT_TYPE_LATEST, b"")
        self._stale_at = 0.0

    def __call__(self, _query: Mapping[str, str]) -> Page:
        with self._making:
            if time.monotonic() >= self._stale_at:
                body, cost_seconds = self._maker.submit(self._make).result()
                self._page = self._page._replace(body=body)
                least = _PAUSE_FACTOR * cost_seconds + len(body) / _MOST_NEW_BYTES_PER_SECOND
                self._stale_at = time.monotonic() + least
            return self._page

    def _make(self) -> tuple[bytes, float]:
        began = time.thread_time()
        return gauge_rows.page(self._registry), time.thread_time() - began
