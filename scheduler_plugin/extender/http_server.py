"""Serve HTTP/1.1 to one client that sends one request at a time: the part of the protocol that kube-scheduler uses.

A hand-written `BufferedProtocol`, because a framework costs more than all the rest of a call. Bodies are bounded and
received into one buffer. `Content-Length` is always sent, because kube-scheduler's client drops the connection without
it. Idle connections stay open until the client closes them, after 90 s. An error is a JSON object `{"Error": ...}` with
a status other than 200. A request whose end cannot be found closes the connection.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Callable
from http import HTTPStatus
from typing import Final, NamedTuple

import msgspec

from component_base import listening

log = logging.getLogger(__name__)

_MAX_HEAD_BYTES: Final = 16 * 1024
_FIRST_BUFFER_BYTES: Final = 64 * 1024
_KEPT_BUFFER_BYTES: Final = 2 * 1024**2  # for 40,000 node names; a larger buffer is freed after its request
_GRACE_SECONDS: Final = 1.0  # for requests that are partly received at shutdown
_HEAD_END: Final = b"\r\n\r\n"
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


class _ClosingError(Exception):
    """A request whose end is unknown, or whose body is refused: the connection is closed after the response."""

    def __init__(self, status: HTTPStatus, text: str) -> None:
        super().__init__(text)
        self.response = error_response(status, text)


class _Head(NamedTuple):
    method: str
    path: str
    body_bytes: int
    keep_alive: bool
    expects_continue: bool


def _parse_head(head: bytes, max_body_bytes: int) -> _Head:
    request_line, *lines = head.decode("latin-1").split("\r\n")
    parts = request_line.split(" ")
    if len(parts) != 3 or not parts[2].startswith("HTTP/1."):
        raise _ClosingError(HTTPStatus.BAD_REQUEST, f"got request line {request_line[:100]!r}, want HTTP/1.1")
    headers: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.partition(":")
        name, value = name.lower(), value.strip()
        if not colon or (name == "content-length" and headers.get(name, value) != value):
            raise _ClosingError(HTTPStatus.BAD_REQUEST, f"header {line[:100]!r} is malformed or contradicts another")
        headers[name] = value
    connection = headers.get("connection", "").lower()
    return _Head(
        method=parts[0],
        path=parts[1].partition("?")[0],
        body_bytes=_body_bytes(parts[0], headers, max_body_bytes),
        keep_alive=connection == "keep-alive" if parts[2] == "HTTP/1.0" else connection != "close",
        expects_continue=headers.get("expect", "").lower() == "100-continue",
    )


def _body_bytes(method: str, headers: dict[str, str], max_body_bytes: int) -> int:
    text = headers.get("content-length")
    if "transfer-encoding" in headers or (text is None and method == "POST"):
        raise _ClosingError(HTTPStatus.LENGTH_REQUIRED, "want a body with Content-Length")
    if text is None:
        return 0
    if not (text.isascii() and text.isdigit() and len(text) < 19):
        raise _ClosingError(HTTPStatus.BAD_REQUEST, f"got Content-Length {text[:100]!r}, want a number of bytes")
    if int(text) > max_body_bytes:
        raise _ClosingError(
            HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
            f"got a body of {text} bytes, want at most {max_body_bytes}: set nodeCacheCapable: true for this extender "
            "in the KubeSchedulerConfiguration, so that node names are sent instead of whole nodes",
        )
    return int(text)


class _Connection(asyncio.BufferedProtocol):
    """One connection; requests are handled one after the other, in their order."""

    def __init__(self, handler: Handler, max_body_bytes: int, open_connections: set[_Connection]) -> None:
        self._handler = handler
        self._max_body_bytes = max_body_bytes
        self._open_connections = open_connections
        self._loop = asyncio.get_running_loop()
        self.closed: asyncio.Future[None] = self._loop.create_future()
        self._transport: asyncio.Transport | None = None
        self._buffer = bytearray(_FIRST_BUFFER_BYTES)
        self._received = 0
        self._head: _Head | None = None
        """Head of the current request, once it is complete."""
        self._body_start = 0
        self._closing = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._open_connections.add(self)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002  # the signature that asyncio requires
        self._transport = None
        self._open_connections.discard(self)
        self.closed.set_result(None)

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002  # the signature that asyncio requires
        return memoryview(self._buffer)[self._received :]

    def buffer_updated(self, nbytes: int) -> None:
        self._received += nbytes
        try:
            while self._handle_request():
                pass
        except _ClosingError as error:
            self._send(error.response, keep_alive=False)

    def finish(self) -> None:
        """Close the connection now if it is idle, else after the response to the current request."""
        self._closing = True
        if self._received == 0 and self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """Close the connection immediately."""
        if self._transport is not None:
            self._transport.abort()

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
        self._head = None
        if rest == 0 and len(self._buffer) > _KEPT_BUFFER_BYTES:
            self._buffer = bytearray(_FIRST_BUFFER_BYTES)
        self._send(self._handler(head.method, head.path, body), keep_alive=head.keep_alive and not self._closing)
        return True

    def _take_head(self) -> _Head | None:
        end = self._buffer.find(_HEAD_END, 0, self._received)
        if end > _MAX_HEAD_BYTES or (end < 0 and self._received > _MAX_HEAD_BYTES):
            raise _ClosingError(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, "the head of the request is too long")
        if end < 0:
            return None
        self._head = head = _parse_head(bytes(self._buffer[:end]), self._max_body_bytes)
        self._body_start = end + len(_HEAD_END)
        if head.expects_continue and self._transport is not None:
            self._transport.write(_CONTINUE)
        return head

    def _make_room(self, size: int) -> None:
        """Double the full buffer, up to `size`: memory grows with received bytes, not with the announced length."""
        larger = bytearray(min(size, 2 * len(self._buffer)))  # not resized: the event loop still has a view of the old
        larger[: self._received] = self._buffer
        self._buffer = larger

    def _send(self, response: Response, *, keep_alive: bool) -> None:
        if self._transport is None:
            return
        end = b"" if keep_alive else b"Connection: close\r\n"
        self._transport.write(
            b"HTTP/1.1 %d %b\r\nContent-Type: application/json\r\nContent-Length: %d\r\n%b\r\n%b"
            % (response.status, response.status.phrase.encode(), len(response.body), end, response.body)
        )
        if not keep_alive:
            self._transport.close()
        if response.then is not None:
            self._loop.call_soon(response.then)


class ExtenderServer:
    """Server on one address, with TLS if given; `port` 0 takes any free port (see the attribute after `start`)."""

    def __init__(
        self, address: str, port: int, handler: Handler, *, max_body_bytes: int, tls: ssl.SSLContext | None = None
    ) -> None:
        self.address = address
        self.port = port
        self._tls = tls
        self._handler = handler
        self._max_body_bytes = max_body_bytes
        self._connections: set[_Connection] = set()
        self._server: asyncio.Server | None = None

    async def start(self) -> None:
        """Listen. Raises CannotListen."""
        fix = "stop the process that uses it, or set another --extender-port"
        opened = listening.listen(self.address, self.port, purpose="kube-scheduler", fix=fix)
        self._server = await asyncio.get_running_loop().create_server(
            lambda: _Connection(self._handler, self._max_body_bytes, self._connections), sock=opened, ssl=self._tls
        )
        self.port = opened.getsockname()[1]

    async def stop(self) -> None:
        """Stop listening, finish the current requests, then close all connections."""
        if self._server is None:
            return
        self._server.close()
        for connection in list(self._connections):
            connection.finish()
        if self._connections:
            await asyncio.wait([connection.closed for connection in self._connections], timeout=_GRACE_SECONDS)
        for connection in list(self._connections):
            connection.abort()
        self._server = None
