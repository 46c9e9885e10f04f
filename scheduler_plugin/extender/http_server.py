"""HTTP/1.1 for one client that sends one request at a time: as much of the protocol as kube-scheduler speaks.

A hand-written `BufferedProtocol` because a framework costs more than all the rest of a call. Bodies are bounded and
received into one buffer; `Content-Length` is always sent (kube-scheduler's client drops the connection otherwise);
idle connections stay open until the client closes them (it does after 90 s). An error is a JSON object `{"Error": ...}`
under a status other than 200, and a request whose end cannot be found closes the connection.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Callable
from http import HTTPStatus
from typing import Final, NamedTuple

import msgspec

from component_base.http_endpoint import CannotListen

log = logging.getLogger(__name__)

_MAX_HEAD_BYTES: Final = 16 * 1024
_FIRST_BUFFER_BYTES: Final = 64 * 1024
_KEPT_BUFFER_BYTES: Final = 2 * 1024**2  # for 40,000 node names; a larger buffer is given back after its request
_GRACE_SECONDS: Final = 1.0  # for requests that are half received at shutdown
_HEAD_END: Final = b"\r\n\r\n"
_CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"


class Answer(NamedTuple):
    """What a request is answered with."""

    status: HTTPStatus
    body: bytes
    then: Callable[[], None] | None = None
    """Called once the answer is on its way: work that must not delay it."""


Handler = Callable[[str, str, bytes], Answer]
"""(method, path, body) -> answer; must not raise."""


def error_answer(status: HTTPStatus, text: str) -> Answer:
    """Say what is wrong."""
    return Answer(status, msgspec.json.encode({"Error": text}))


class _Unanswerable(Exception):
    """A request whose end is unknown or not worth waiting for: answered, then the connection is closed."""

    def __init__(self, status: HTTPStatus, text: str) -> None:
        super().__init__(text)
        self.answer = error_answer(status, text)


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
        raise _Unanswerable(HTTPStatus.BAD_REQUEST, f"{request_line[:100]!r} is not a request line of HTTP/1.1")
    headers: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.partition(":")
        name, value = name.lower(), value.strip()
        if not colon or (name == "content-length" and headers.get(name, value) != value):
            raise _Unanswerable(
                HTTPStatus.BAD_REQUEST, f"the header {line[:100]!r} is malformed or contradicts another"
            )
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
        raise _Unanswerable(HTTPStatus.LENGTH_REQUIRED, "send the body whole, with Content-Length")
    if text is None:
        return 0
    if not (text.isascii() and text.isdigit() and len(text) < 19):
        raise _Unanswerable(HTTPStatus.BAD_REQUEST, f"Content-Length is {text[:100]!r}, want a number of bytes")
    if int(text) > max_body_bytes:
        raise _Unanswerable(
            HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
            f"the body has {text} bytes, at most {max_body_bytes} are taken: set nodeCacheCapable: true for this "
            "extender in the KubeSchedulerConfiguration, so that node names are sent instead of whole nodes",
        )
    return int(text)


class _Connection(asyncio.BufferedProtocol):
    """One connection: requests are answered in the order they come, one after the other."""

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
        """Head of the request that is being received, once it is complete."""
        self._body_start = 0
        self._closing = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._open_connections.add(self)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002  # the signature asyncio asks for
        self._transport = None
        self._open_connections.discard(self)
        self.closed.set_result(None)

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002  # the signature asyncio asks for
        return memoryview(self._buffer)[self._received :]

    def buffer_updated(self, nbytes: int) -> None:
        self._received += nbytes
        try:
            while self._take_request():
                pass
        except _Unanswerable as error:
            self._send(error.answer, keep_alive=False)

    def finish(self) -> None:
        """Close now where nothing is half received; else once it is answered."""
        self._closing = True
        if self._received == 0 and self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """Close whatever is under way."""
        if self._transport is not None:
            self._transport.abort()

    def _take_request(self) -> bool:
        """Answer the first request in the buffer, if it is complete and nobody hung up."""
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
            raise _Unanswerable(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, "the head of the request is too long")
        if end < 0:
            return None
        self._head = head = _parse_head(bytes(self._buffer[:end]), self._max_body_bytes)
        self._body_start = end + len(_HEAD_END)
        if head.expects_continue and self._transport is not None:
            self._transport.write(_CONTINUE)
        return head

    def _make_room(self, size: int) -> None:
        """Double the full buffer, up to `size`: memory is for what has come, not for what was announced."""
        larger = bytearray(min(size, 2 * len(self._buffer)))  # a new one: the event loop still holds a view of the old
        larger[: self._received] = self._buffer
        self._buffer = larger

    def _send(self, answer: Answer, *, keep_alive: bool) -> None:
        if self._transport is None:
            return
        end = b"" if keep_alive else b"Connection: close\r\n"
        self._transport.write(
            b"HTTP/1.1 %d %b\r\nContent-Type: application/json\r\nContent-Length: %d\r\n%b\r\n%b"
            % (answer.status, answer.status.phrase.encode(), len(answer.body), end, answer.body)
        )
        if not keep_alive:
            self._transport.close()
        if answer.then is not None:
            self._loop.call_soon(answer.then)


class ExtenderServer:
    """Listens on one address, with TLS if given; `port` 0 takes any free one (see the attribute after `start`)."""

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
        loop = asyncio.get_running_loop()
        try:
            self._server = await loop.create_server(
                lambda: _Connection(self._handler, self._max_body_bytes, self._connections),
                self.address,
                self.port,
                ssl=self._tls,
            )
        except OSError as error:
            raise CannotListen(
                f"cannot listen on {self.address}:{self.port} for kube-scheduler: {error.strerror or error}; "
                "end the process that holds it or choose another port"
            ) from error
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Take no new connection, answer what is half received, then close."""
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
