"""Serve HTTP pages to untrusted clients, from one thread, with bounded memory and time.

Every connection serves one request and has one deadline, from its start until the client has read the answer. A new
connection beyond the bound closes the oldest one, and those that still send their request do not displace those that
are answered: thousands of slow clients cost a few hundred kilobytes, and a probe, which sends at once, is answered
among them. Pages are made by a few threads, a piece at a time, and a client that does not read gets no further piece.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import errno
import fcntl
import logging
import socket
import struct
import termios
import threading
import time
import urllib.parse
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Final, NamedTuple

log = logging.getLogger(__name__)

MOST_WAITING: Final = 112
"""Connections whose request is not complete."""
MOST_ANSWERING: Final = 112
"""Connections whose client has not read its answer."""
_MOST_HEAD_BYTES: Final = 8192
_READ_BYTES: Final = 8192
"""Bytes read at once, into one buffer of all connections."""
_HEAD_END: Final = b"\r\n\r\n"
_PIECE_BYTES: Final = 16 * 1024
"""Bytes of an answer that one connection has in memory; the kernel holds some more."""
_SEND_BUFFER_BYTES: Final = 64 * 1024
_ACCEPTED_AT_ONCE: Final = 4
"""Connections accepted in one turn of the loop: few, so that each is read before it can be the oldest.

asyncio needs some turns to hand one over and to close one, so several times as many are in memory in a flood.
"""
_KERNEL_QUEUE: Final = 1024
"""Connections that the kernel accepts for the loop: it silently drops clients beyond them."""
_ACCEPT_TURNS: Final = 3
"""Turns of the loop in which asyncio hands over an accepted connection; a server closed earlier leaves it open."""
_WORKERS: Final = 4
_MOST_IGNORED_BYTES: Final = 64 * 1024
"""Bytes that a client may send beyond its request, such as a body, while it reads the answer."""
_RESET: Final = struct.pack("ii", 1, 0)
"""Value of SO_LINGER with which the kernel drops what the client has not read, instead of keeping it for minutes."""
_WARNING_SECONDS: Final = 60.0
_NO_RESOURCES: Final = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


class Page(NamedTuple):
    """Response of a page. An iterator is requested piece by piece, as the client reads."""

    content_type: str
    body: bytes | Iterator[bytes]
    status: HTTPStatus = HTTPStatus.OK


Route = Callable[[Mapping[str, str]], Page]


@dataclass(eq=False)
class Listener:
    """A listening socket and its pages. Every page in `instant` is made without waiting, in the thread of the loop."""

    socket: socket.socket
    routes: Mapping[str, Route]
    seconds: float
    """Deadline of a connection."""
    instant: frozenset[str] = frozenset()
    waiting: dict[_Connection, None] = field(default_factory=dict)
    """Connections whose request is not complete, the oldest first."""
    answering: dict[_Connection, None] = field(default_factory=dict)
    """Connections whose client has not read its answer, the oldest first."""


class HttpServer:
    """Thread that serves some listeners until `stop`."""

    def __init__(self, listeners: Sequence[Listener]) -> None:
        self._listeners = listeners
        self._workers = concurrent.futures.ThreadPoolExecutor(_WORKERS, thread_name_prefix="http-page")
        self._loop = asyncio.new_event_loop()
        self._stopping = asyncio.Event()
        self._received = bytearray(_READ_BYTES)
        self._loop.set_exception_handler(self._log_problem)
        self._warned_at = -_WARNING_SECONDS
        self._thread = threading.Thread(target=self._run, name="http-endpoint", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        for listener in self._listeners:
            listener.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BUFFER_BYTES)  # inherited
        self._thread.start()

    def stop(self) -> None:
        """Close all connections, and free the ports and the thread."""
        self._loop.call_soon_threadsafe(self._stopping.set)
        self._thread.join()
        self._workers.shutdown(wait=False, cancel_futures=True)

    def _run(self) -> None:
        with contextlib.closing(self._loop):
            self._loop.run_until_complete(self._serve())

    async def _serve(self) -> None:
        servers = [await self._listen(listener) for listener in self._listeners]
        await self._stopping.wait()
        for listener in self._listeners:
            self._loop.remove_reader(listener.socket.fileno())  # accepts no more
        for _ in range(_ACCEPT_TURNS):
            await asyncio.sleep(0)
        for server in servers:
            server.close()
        for listener in self._listeners:
            for connection in [*listener.waiting, *listener.answering]:
                connection.abort()
        await asyncio.sleep(0)  # the loop closes the sockets and cancels the answers now
        await asyncio.sleep(0)

    async def _listen(self, listener: Listener) -> asyncio.Server:
        server = await self._loop.create_server(
            lambda: _Connection(listener, self._workers, self._received),
            sock=listener.socket,
            backlog=_ACCEPTED_AT_ONCE,
        )
        listener.socket.listen(_KERNEL_QUEUE)
        return server

    def _log_problem(self, _loop: asyncio.AbstractEventLoop, context: Mapping[str, Any]) -> None:
        """Log what no connection handles. The loop itself pauses for a second where it cannot accept."""
        error = context.get("exception")
        if not isinstance(error, OSError):
            log.error("probes and metrics: %s", context["message"], exc_info=error)
        elif error.errno not in _NO_RESOURCES:
            log.debug("probes and metrics: %s: %s", context["message"], error)
        elif time.monotonic() - self._warned_at >= _WARNING_SECONDS:
            self._warned_at = time.monotonic()
            log.warning("probes and metrics: cannot accept clients: %s; trying again each second", error)


class _Connection(asyncio.BufferedProtocol):
    """One request of one client. `received` is a buffer that connections of one thread share."""

    def __init__(self, listener: Listener, workers: concurrent.futures.Executor, received: bytearray) -> None:
        self._listener = listener
        self._workers = workers
        self._received = received
        self._loop = asyncio.get_running_loop()
        self._head = bytearray()
        self._answer: asyncio.Task[None] | None = None
        self._writable: asyncio.Event
        """Of an answer that is made in pieces: its next piece can be written."""
        self._ignored_bytes = 0
        self._transport: asyncio.Transport
        self._deadline: asyncio.TimerHandle

    def abort(self) -> None:
        """Close at once, and drop what the client has not read."""
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        self._transport.abort()

    # called by asyncio

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._socket = transport.get_extra_info("socket")
        transport.set_write_buffer_limits(high=0)
        self._deadline = self._loop.call_later(self._listener.seconds, self.abort)
        _add(self._listener.waiting, self, MOST_WAITING)

    def get_buffer(self, _sizehint: int) -> bytearray:
        """Return the shared buffer: asyncio reads into it and calls `buffer_updated` at once."""
        return self._received

    def buffer_updated(self, nbytes: int) -> None:
        if self in self._listener.answering:
            self._ignored_bytes += nbytes
            if self._ignored_bytes > _MOST_IGNORED_BYTES:
                self._transport.pause_reading()
            return
        searched = max(len(self._head) - len(_HEAD_END) + 1, 0)
        self._head += memoryview(self._received)[:nbytes]
        end = self._head.find(_HEAD_END, searched, _MOST_HEAD_BYTES)
        if end < 0 and len(self._head) < _MOST_HEAD_BYTES:
            return
        self._transport.pause_reading()
        self._listener.waiting.pop(self, None)
        _add(self._listener.answering, self, MOST_ANSWERING)
        first_line = self._head.partition(b"\r\n")[0].decode("latin-1") if end >= 0 else None
        self._head.clear()
        self._respond_to(first_line)

    def eof_received(self) -> bool:
        """Keep a connection whose client has sent everything and not read everything."""
        return self in self._listener.answering and _unread_bytes(self._socket) > 0

    def connection_lost(self, exc: Exception | None) -> None:
        vars(self._transport).pop("_read_ready_cb", None)  # refers to the transport, which only a collection would free
        self._deadline.cancel()
        self._listener.waiting.pop(self, None)
        self._listener.answering.pop(self, None)
        if self._answer is not None:
            self._answer.cancel()
        if exc is not None:
            log.debug("a client is gone: %s", exc)

    def pause_writing(self) -> None:
        if self._answer is not None:
            self._writable.clear()

    def resume_writing(self) -> None:
        if self._answer is not None:
            self._writable.set()

    # the answer

    def _respond_to(self, first_line: str | None) -> None:
        if first_line is None:
            text = f"the head of the request has more than {_MOST_HEAD_BYTES} bytes\n"
            self._send_at_once(_text(text, HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE))
            return
        method, _, rest = first_line.partition(" ")
        target, _, version = rest.partition(" ")
        if not version.startswith("HTTP/"):
            self._send_at_once(_text("not an HTTP request\n", HTTPStatus.BAD_REQUEST))
        elif method not in ("GET", "HEAD", "POST"):  # no page changes anything, and some clients use POST
            self._send_at_once(_text("want GET\n", HTTPStatus.NOT_IMPLEMENTED))
        elif target.partition("?")[0] in self._listener.instant:
            self._send_at_once(_page(self._listener.routes, target), with_body=method != "HEAD")
        else:
            self._writable = asyncio.Event()
            self._writable.set()
            self._answer = self._loop.create_task(self._send(target, with_body=method != "HEAD"))

    def _send_at_once(self, page: Page, *, with_body: bool = True) -> None:
        assert isinstance(page.body, bytes)
        self._transport.write(_head(page) + (page.body if with_body else b""))
        self._finish()

    def _finish(self) -> None:
        """End the answer and wait for the client to close: a closed socket would keep unread bytes out of any bound."""
        self._transport.write_eof()
        self._transport.resume_reading()

    async def _send(self, target: str, *, with_body: bool) -> None:
        try:
            page = await self._loop.run_in_executor(self._workers, _page, self._listener.routes, target)
            self._transport.write(_head(page))
            if with_body:
                await self._send_body(page.body)
        except Exception:
            log.exception("the page %s failed on its way", target)
            self.abort()  # the client must not take a part for the whole
        else:
            self._finish()

    async def _send_body(self, body: bytes | Iterator[bytes]) -> None:
        pieces = iter((body,)) if isinstance(body, bytes) else body
        while True:
            await self._writable.wait()
            piece = next(pieces, None) if isinstance(body, bytes) else await self._next(pieces)
            if piece is None:
                return
            for begin in range(0, len(piece), _PIECE_BYTES):
                await self._writable.wait()
                if self._transport.is_closing():  # the client is gone; asyncio would log a warning for each piece
                    return
                self._transport.write(memoryview(piece)[begin : begin + _PIECE_BYTES])

    async def _next(self, pieces: Iterator[bytes]) -> bytes | None:
        return await self._loop.run_in_executor(self._workers, next, pieces, None)


def _add(connections: dict[_Connection, None], new: _Connection, most: int) -> None:
    """Add a connection; beyond `most` close the oldest."""
    if len(connections) >= most:
        oldest = next(iter(connections))
        del connections[oldest]
        oldest.abort()
    connections[new] = None


def _unread_bytes(sending: socket.socket) -> int:
    """Return the bytes of a connection that the kernel has sent or will send, and the client has not received."""
    (count,) = struct.unpack("i", fcntl.ioctl(sending.fileno(), termios.TIOCOUTQ, bytes(4)))
    return int(count)


def _head(page: Page) -> bytes:
    length = f"Content-Length: {len(page.body)}\r\n" if isinstance(page.body, bytes) else ""
    return (
        f"HTTP/1.0 {page.status.value} {page.status.phrase}\r\n"
        f"Content-Type: {page.content_type}\r\n{length}Connection: close\r\n\r\n"
    ).encode("latin-1")


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
