"""Serve HTTP/1.1 to clients that send one request at a time: the part of the protocol that kube-scheduler uses.

A hand-written `BufferedProtocol`, because a framework costs more than all the rest of a call. `Content-Length` is
always sent, because kube-scheduler's client drops the connection without it. Idle connections stay open until the
client closes them, after 90 s. An error is a JSON object `{"Error": ...}` with a status other than 200. A request whose
end cannot be found closes the connection.

Every peer is bounded. A TLS handshake takes 5 s at most; a buffer is allocated after it. A request that has begun takes
10 s at most, and so does a response that is not read; meanwhile nothing more is read from that peer. If there are too
many, one gives way to a new one, so that no peer keeps another out: of handshakes the oldest, of connections the least
useful, each time of the address with the most of them; of requests that are too large together those that began first.
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
import logging
import socket
import ssl
import time
from collections.abc import Callable, Iterable
from http import HTTPStatus
from typing import Final, NamedTuple

import msgspec

from component_base import listening
from scheduler_plugin.extender import http_head
from scheduler_plugin.extender.http_head import BadHead, Head

log = logging.getLogger(__name__)

MOST_CONNECTIONS: Final = 64  # kube-scheduler uses two, and one more for each bind call in progress
MOST_HANDSHAKES: Final = 32
HANDSHAKE_SECONDS: Final = 5.0
REQUEST_SECONDS: Final = 10.0
_SWEEP_SECONDS: Final = 1.0
_FIRST_BUFFER_BYTES: Final = 2 * http_head.MAX_HEAD_BYTES  # a head that is too long is noticed in it
_KEPT_BUFFER_BYTES: Final = 2 * 1024**2  # for 40,000 node names; a larger buffer is freed after its request
_GRACE_SECONDS: Final = 1.0  # for requests that are partly received at shutdown
_CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"


class Response(NamedTuple):
    """Response to one request."""

    status: HTTPStatus
    body: bytes
    then: Callable[[], None] | None = None
    """Called after the response was written: work that must not delay it."""


Handler = Callable[[str, str, bytes], Response]
"""(method, path, body) -> response; must not raise."""


def error_response(status: HTTPStatus, text: str) -> Response:
    """Return a response with an error message."""
    return Response(status, msgspec.json.encode({"Error": text}))


class _Connection(asyncio.BufferedProtocol):
    """One connection; requests are handled one after the other, in their order."""

    def __init__(
        self, peer_address: str, handler: Handler, max_body_bytes: int, open_connections: _OpenConnections
    ) -> None:
        self.peer_address = peer_address
        self._handler = handler
        self._max_body_bytes = max_body_bytes
        self._open_connections = open_connections
        self._loop = asyncio.get_running_loop()
        self.closed: asyncio.Future[None] = self._loop.create_future()
        self._transport: asyncio.Transport | None = None
        self._buffer = bytearray()
        """Allocated with the first byte, which over TLS follows the handshake."""
        self._received = 0
        self.begun_at = 0.0
        """Monotonic time of the first byte of the request in the buffer; 0 without one."""
        self.usefulness = 0.0, time.monotonic()
        """Monotonic time of the last whole request, 0 before the first, and of the connection's begin."""
        self._blocked_at = 0.0
        """Monotonic time since which the client does not read; 0 while it does."""
        self._head: Head | None = None
        """Head of the current request, once it is complete."""
        self._body_start = 0
        self._closing = False
        self._goes_on = False
        """Whether the next turn of the event loop goes on with requests that were received together."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._open_connections.add(self)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002  # the signature that asyncio requires
        self._transport = None
        self._open_connections.discard(self)
        self.closed.set_result(None)

    @property
    def buffer_bytes(self) -> int:
        """Return the size of the buffer, of which a part may be empty."""
        return len(self._buffer)

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002  # the signature that asyncio requires
        if not self._buffer:
            self._buffer = bytearray(_FIRST_BUFFER_BYTES)
        return memoryview(self._buffer)[self._received :]

    def buffer_updated(self, nbytes: int) -> None:
        if not self._received:
            self.begun_at = time.monotonic()
        self._received += nbytes
        self._handle_requests()

    def pause_writing(self) -> None:
        """Read nothing more from a client that does not read its responses."""
        self._blocked_at = time.monotonic()
        if self._transport is not None:
            self._transport.pause_reading()

    def resume_writing(self) -> None:
        """Go on with the requests that were received meanwhile."""
        self._blocked_at = 0.0
        if self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()
            self._handle_requests()

    def is_overdue(self, now: float) -> bool:
        """Return whether the client takes too long for its request, or to read its response."""
        return any(since and now - since > REQUEST_SECONDS for since in (self.begun_at, self._blocked_at))

    def _handle_requests(self) -> None:
        """Handle one request in a turn of the event loop: kube-scheduler waits for each response."""
        try:
            if self._blocked_at or self._goes_on or not self._handle_request():
                return
            if self._transport is not None and self._received:
                self._goes_on = True
                self._transport.pause_reading()
                self._loop.call_soon(self._go_on)
        except BadHead as error:
            self._send(error_response(error.status, str(error)), keep_alive=False)

    def _go_on(self) -> None:
        """Handle what else the client has sent without waiting for responses; others had their turn."""
        self._goes_on = False
        if self._transport is not None and not self._transport.is_closing() and not self._blocked_at:
            self._transport.resume_reading()
            self._handle_requests()

    def finish(self) -> None:
        """Close the connection now if it is idle, else after the response to the current request."""
        self._closing = True
        if self._received == 0 and self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """Close the connection immediately."""
        if self._transport is not None:
            self._transport.abort()
        self.free_buffer()

    def free_buffer(self) -> None:
        """Free the buffer, with what was received of a request."""
        self._buffer, self._received = bytearray(), 0

    def _handle_request(self) -> bool:
        """Handle the first request in the buffer, if it is complete and the connection is open."""
        if self._transport is None or self._transport.is_closing() or not self._received:
            return False
        head = self._head or self._take_head()
        if head is None:
            return False
        end = self._body_start + head.body_bytes
        if self._received < end:
            if self._received == len(self._buffer):
                self._make_room(end)
            return False
        body = bytes(memoryview(self._buffer)[self._body_start : end])
        rest = self._received - end
        self._buffer[:rest] = self._buffer[end : self._received]
        self._received = rest
        now = time.monotonic()
        self.begun_at, self.usefulness = now if rest else 0.0, (now, now)
        self._head = None
        if rest == 0 and len(self._buffer) > _KEPT_BUFFER_BYTES:
            self._buffer = bytearray(_FIRST_BUFFER_BYTES)
        keep_alive = head.keep_alive and not self._closing
        self._send(self._handler(head.method, head.path, body), keep_alive=keep_alive, with_body=head.method != "HEAD")
        return True

    def _take_head(self) -> Head | None:
        end = self._buffer.find(http_head.HEAD_END, 0, self._received)
        if end > http_head.MAX_HEAD_BYTES or (end < 0 and self._received > http_head.MAX_HEAD_BYTES):
            raise BadHead(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, "the head of the request is too long")
        if end < 0:
            return None
        self._head = head = http_head.parse(bytes(self._buffer[:end]), self._max_body_bytes)
        self._body_start = end + len(http_head.HEAD_END)
        if head.expects_continue and self._transport is not None:
            self._transport.write(_CONTINUE)
        return head

    def _make_room(self, size: int) -> None:
        """Double the full buffer, up to `size`: memory grows with received bytes, not with the announced length."""
        target = min(size, 2 * len(self._buffer))
        self._open_connections.make_room(self, target)
        larger = bytearray(target)  # not resized: the event loop still has a view of the old
        larger[: self._received] = self._buffer
        self._buffer = larger

    def _send(self, response: Response, *, keep_alive: bool, with_body: bool = True) -> None:
        if self._transport is None:
            return
        end = b"" if keep_alive else b"Connection: close\r\n"
        if response.status == HTTPStatus.METHOD_NOT_ALLOWED:
            end += b"Allow: POST\r\n"
        self._transport.write(
            b"HTTP/1.1 %d %b\r\nContent-Type: application/json\r\nContent-Length: %d\r\n%b\r\n%b"
            % (
                response.status,
                response.status.phrase.encode(),
                len(response.body),
                end,
                response.body if with_body else b"",
            )
        )
        if not keep_alive:
            self._transport.close()
        if response.then is not None:
            self._loop.call_soon(response.then)


class _OpenConnections(set[_Connection]):
    """Open connections of one server, and what they may hold together."""

    def __init__(self, max_body_bytes: int) -> None:
        super().__init__()
        self._most_bytes = max_body_bytes + MOST_CONNECTIONS * _FIRST_BUFFER_BYTES
        self.displaced = 0
        """Number of connections that gave way, since the start."""

    def add(self, connection: _Connection) -> None:
        """Add a connection; of too many, the least useful one of the address with the most gives way to it."""
        while len(self) >= MOST_CONNECTIONS:
            address = _most_frequent(peer.peer_address for peer in self)
            crowd = [peer for peer in self if peer.peer_address == address]
            self._displace(min(crowd, key=lambda peer: peer.usefulness))
        super().add(connection)

    def make_room(self, connection: _Connection, size: int) -> None:
        """Free buffers of other connections until one of `size` fits: of idle ones, then requests that began first."""
        others = sorted(self - {connection}, key=lambda peer: peer.begun_at)  # 0 of idle ones
        excess = size + sum(peer.buffer_bytes for peer in others) - self._most_bytes
        for other in others:
            if excess <= 0:
                return
            excess -= other.buffer_bytes
            if other.begun_at:
                self._displace(other)
            else:
                other.free_buffer()

    def _displace(self, connection: _Connection) -> None:
        self.discard(connection)
        self.displaced += 1
        connection.abort()


def _most_frequent(addresses: Iterable[str]) -> str:
    ((address, _count),) = collections.Counter(addresses).most_common(1)
    return address


class ExtenderServer:
    """Server on one address; `port` 0 takes any free port (see the attribute after `start`).

    `tls` returns the context for the next connection; None: plain HTTP.
    """

    def __init__(
        self,
        address: str,
        port: int,
        handler: Handler,
        *,
        max_body_bytes: int,
        tls: Callable[[], ssl.SSLContext] | None = None,
    ) -> None:
        self.address = address
        self.port = port
        self._tls = tls
        self._handler = handler
        self._max_body_bytes = max_body_bytes
        self._connections = _OpenConnections(max_body_bytes)
        self._beginning: dict[asyncio.Task[None], str] = {}
        """Task and peer's address of accepted connections until their TLS handshake is done, oldest first."""
        self._work: list[asyncio.Task[None]] = []
        self._listener: socket.socket | None = None

    async def start(self) -> None:
        """Listen. Raises CannotListen."""
        fix = "stop the process that uses it, or set another --extender-port"
        self._listener = listening.listen(self.address, self.port, purpose="kube-scheduler", fix=fix)
        self.port = self._listener.getsockname()[1]
        self._work = [asyncio.create_task(self._accept(self._listener)), asyncio.create_task(self._sweep())]

    async def stop(self) -> None:
        """Stop listening, finish the current requests, then close all connections."""
        if self._listener is None:
            return
        for task in (*self._work, *self._beginning):
            task.cancel()
        await asyncio.gather(*self._work, *self._beginning, return_exceptions=True)
        self._listener.close()
        for connection in list(self._connections):
            connection.finish()
        if self._connections:
            await asyncio.wait([connection.closed for connection in self._connections], timeout=_GRACE_SECONDS)
        for connection in list(self._connections):
            connection.abort()
        self._listener = None

    async def _accept(self, listener: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                accepted, (address, *_port) = await loop.sock_accept(listener)
            except OSError as error:
                log.warning("cannot accept a connection: %s", error.strerror or error)
                await asyncio.sleep(_SWEEP_SECONDS)  # out of file descriptors: connections end meanwhile
                continue
            while len(self._beginning) >= MOST_HANDSHAKES:
                most = _most_frequent(self._beginning.values())
                oldest = next(task for task, peer in self._beginning.items() if peer == most)
                del self._beginning[oldest]
                oldest.cancel()
                await asyncio.sleep(0)
            task = asyncio.create_task(self._begin(accepted, address))
            self._beginning[task] = address
            task.add_done_callback(lambda done: self._beginning.pop(done, None))

    async def _begin(self, accepted: socket.socket, peer_address: str) -> None:
        """Serve an accepted connection, over TLS once its handshake is done."""
        context = self._tls() if self._tls else None
        limits = {"ssl_handshake_timeout": HANDSHAKE_SECONDS, "ssl_shutdown_timeout": HANDSHAKE_SECONDS}
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: _Connection(peer_address, self._handler, self._max_body_bytes, self._connections),
                accepted,
                ssl=context,
                **(limits if context else {}),
            )
        except OSError as error:  # also of TLS: a peer without the wanted certificate, or that is no client
            log.debug("a connection ended before its first request: %s", error)
            accepted.close()
        except asyncio.CancelledError:
            with contextlib.suppress(OSError):
                accepted.close()
            raise

    async def _sweep(self) -> None:
        """Close the connections whose client takes too long, and log how many gave way to others."""
        logged = 0
        while True:
            await asyncio.sleep(_SWEEP_SECONDS)
            now = time.monotonic()
            if self._connections.displaced != logged:
                displaced, logged = self._connections.displaced - logged, self._connections.displaced
                log.warning("closed %d connections to make room for others, want fewer clients", displaced)
            for connection in [peer for peer in self._connections if peer.is_overdue(now)]:
                connection.abort()
