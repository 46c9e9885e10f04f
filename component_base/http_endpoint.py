"""Serve /healthz, /readyz, /metrics and the read-only debug pages of a process.

The server has a thread of its own, so that a blocked event loop shows as unhealthy instead of as a time-out. Probes and
routes must therefore be safe to call from another thread: they read values and change nothing. Probes must not wait.

Debug pages name pods and their usage and are expensive, so they have a port of their own on loopback: `kubectl exec`
and `kubectl port-forward` reach it, other pods and the apiserver's proxy do not.
"""

from __future__ import annotations

import concurrent.futures
import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from http import HTTPStatus
from typing import Any, Final, NamedTuple

import prometheus_client
from prometheus_client import exposition

from component_base import gauge_rows, listening
from component_base.http_server import HttpServer, Listener, Page, Route
from component_base.listening import CannotListen

__all__ = ["CannotListen", "HttpEndpoint", "Page", "ProbeResult", "Route", "json_page", "probe_page"]

LOOPBACK: Final = "127.0.0.1"
_REQUEST_SECONDS: Final = 10.0
"""Deadline of a connection: the timeout of a scrape, and more than that of a probe."""
_DEBUG_SECONDS: Final = 60.0
_PIECE_CHARACTERS: Final = 64 * 1024
_MOST_NEW_BYTES_PER_SECOND: Final = 512 * 1024
"""Rate at which metrics are made: clients that do not read hold at most this times the deadline of a connection."""
_PAUSE_FACTOR: Final = 9.0
"""Metrics are kept this many times as long as their making took, so that it takes at most a tenth of a core."""


class ProbeResult(NamedTuple):
    """Result of a probe, with a text for people."""

    ok: bool
    text: str


Probe = Callable[[], ProbeResult]


def json_page(value: Any) -> Page:
    """Return a page with a value as indented JSON, encoded piece by piece."""
    return Page("application/json", _json_pieces(value))


def _json_pieces(value: Any) -> Iterator[bytes]:
    held: list[str] = []
    characters = 0
    for text in json.JSONEncoder(indent=2, default=str).iterencode(value):
        held.append(text)
        characters += len(text)
        if characters > _PIECE_CHARACTERS:
            yield "".join(held).encode()
            held, characters = [], 0
    yield "".join([*held, "\n"]).encode()


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
        own = {"/healthz": health, "/readyz": ready, **(probes or {})}
        self._probes = frozenset(own)
        self._routes: dict[str, Route] = {
            **{path: _probe_route(probe) for path, probe in own.items()},
            "/metrics": _Metrics(registry),
            **(routes or {}),
        }
        self._debug_routes = debug_routes or {}
        self._server: HttpServer | None = None

    def start(self) -> None:
        """Start to listen and serve. Raises CannotListen."""
        fix = "end the process that uses it or choose another port"
        opened = listening.listen(self.address, self.port, purpose="probes and metrics", fix=fix)
        listeners = [Listener(opened, self._routes, _REQUEST_SECONDS, self._probes)]
        self.port = opened.getsockname()[1]
        if self._debug_routes:
            try:
                opened_for_debug = listening.listen(LOOPBACK, self.debug_port, purpose="debug pages", fix=fix)
            except CannotListen:
                opened.close()
                raise
            listeners.append(Listener(opened_for_debug, self._debug_routes, _DEBUG_SECONDS))
            self.debug_port = opened_for_debug.getsockname()[1]
        self._server = HttpServer(listeners)
        self._server.start()

    def stop(self) -> None:
        """Stop serving and free the ports."""
        if self._server is not None:
            server, self._server = self._server, None
            server.stop()


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
