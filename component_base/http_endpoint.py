"""Serve /healthz, /readyz, /metrics and the read-only debug pages of a process.

The server has a thread of its own, so that a blocked event loop shows as unhealthy instead of as a time-out. Probes and
routes must therefore be safe to call from another thread: they read values and change nothing.
"""

from __future__ import annotations

import http.server
import json
import logging
import socket
import threading
import urllib.parse
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Any, NamedTuple

import prometheus_client
from prometheus_client import exposition

log = logging.getLogger(__name__)


class ProbeResult(NamedTuple):
    """Result of a probe, with a text for people."""

    ok: bool
    text: str


class Page(NamedTuple):
    """Response of a page."""

    content_type: str
    body: bytes
    status: HTTPStatus = HTTPStatus.OK


Probe = Callable[[], ProbeResult]
Route = Callable[[Mapping[str, str]], Page]


class CannotListen(Exception):
    """The address is in use or not of this host; the message names it."""


def json_page(value: Any) -> Page:
    """Return a page with a value as indented JSON."""
    return Page("application/json", json.dumps(value, indent=2, default=str).encode() + b"\n")


class HttpEndpoint:
    """Server of probes, metrics and pages; `port` 0 takes any free port (see the attribute `port` after `start`)."""

    def __init__(
        self,
        address: str,
        port: int,
        *,
        health: Probe,
        ready: Probe,
        registry: prometheus_client.CollectorRegistry,
        routes: Mapping[str, Route] | None = None,
    ) -> None:
        self.address = address
        self.port = port
        self._registry = registry
        self._routes: dict[str, Route] = {
            "/healthz": lambda _query: probe_page(health()),
            "/readyz": lambda _query: probe_page(ready()),
            "/metrics": self._metrics_page,
            **(routes or {}),
        }
        self._server: http.server.ThreadingHTTPServer | None = None
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Start to listen and serve. Raises CannotListen."""
        try:
            self._server = _Server((self.address, self.port), _handler(self._routes))
        except OSError as error:
            raise CannotListen(
                f"cannot listen on {self.address}:{self.port} for probes and metrics: {error.strerror or error}; "
                "end the process that uses it or choose another port"
            ) from error
        self.port = self._server.server_address[1]
        self._thread = threading.Thread(target=self._serve, args=(self._server,), name="http-endpoint", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop serving and free the port."""
        if self._server is not None and self._thread is not None:
            server, self._server = self._server, None
            server.socket.shutdown(socket.SHUT_RDWR)  # wakes the thread
            self._thread.join()
            server.server_close()

    def _serve(self, server: http.server.ThreadingHTTPServer) -> None:
        """Serve until stopped. `serve_forever` would wake twice a second, which costs 0.01 % of a core."""
        while self._server is server:
            server.handle_request()

    def _metrics_page(self, _query: Mapping[str, str]) -> Page:
        return Page(exposition.CONTENT_TYPE_LATEST, prometheus_client.generate_latest(self._registry))


class _Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 128
    """Length of the queue of new connections: the kernel silently drops clients beyond it."""


def probe_page(result: ProbeResult) -> Page:
    """Return the page of a result: status 200 when ok, 503 otherwise."""
    status = HTTPStatus.OK if result.ok else HTTPStatus.SERVICE_UNAVAILABLE
    return Page("text/plain; charset=utf-8", result.text.encode() + b"\n", status)


def _find(routes: Mapping[str, Route], path: str) -> tuple[Route | None, str]:
    """Return the route of a path, or of its longest prefix that ends in `/` (the rest is its query `path`)."""
    if path in routes:
        return routes[path], ""
    prefixes = [prefix for prefix in routes if prefix.endswith("/") and path.startswith(prefix)]
    if not prefixes:
        return None, ""
    prefix = max(prefixes, key=len)
    return routes[prefix], path[len(prefix) :]


def _handler(routes: Mapping[str, Route]) -> type[http.server.BaseHTTPRequestHandler]:
    class Handler(http.server.BaseHTTPRequestHandler):
        timeout = 10  # seconds that a client may take to send its request

        def do_GET(self) -> None:  # names required by http.server
            self._answer()

        def do_HEAD(self) -> None:
            self._answer()

        def do_POST(self) -> None:
            """Serve as GET: no page changes anything, and some clients use POST."""
            self._answer()

        def _answer(self) -> None:
            try:
                page = _page(routes, self.path)
            except Exception:
                log.exception("the page %s failed", self.path)
                page = Page("text/plain", b"internal error, see the log\n", HTTPStatus.INTERNAL_SERVER_ERROR)
            self.send_response(page.status)
            self.send_header("Content-Type", page.content_type)
            self.send_header("Content-Length", str(len(page.body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(page.body)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  # signature required by http.server
            log.debug(format, *args)

    return Handler


def _page(routes: Mapping[str, Route], target: str) -> Page:
    try:
        url = urllib.parse.urlsplit(target)
    except ValueError as error:
        return Page("text/plain", f"not a URL: {error}\n".encode(), HTTPStatus.BAD_REQUEST)
    route, rest = _find(routes, url.path)
    query = {**dict(urllib.parse.parse_qsl(url.query)), "path": urllib.parse.unquote(rest)}
    return route(query) if route else _not_found(routes)


def _not_found(routes: Mapping[str, Route]) -> Page:
    known = " ".join(sorted(routes))
    return Page("text/plain", f"no such page; there are: {known}\n".encode(), HTTPStatus.NOT_FOUND)
