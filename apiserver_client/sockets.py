"""TCP and TLS for httpcore2, on asyncio's own transports: a read costs a third of what it costs through anyio.

A read of a head ends where the head ends. So nothing of the answer's body is in the hands of httpcore2 yet when it has
given us the head, and who reads a watch can go on reading here.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Iterable
from typing import Any, Final

import httpcore2

_HEAD_END: Final = b"\r\n\r\n"
_MOST_UNREAD: Final = 2**16
"""Bytes that may wait for a reader before the peer has to. No head is longer."""
_BUFFER_BYTES: Final = 2**15
"""As much is taken from the socket, or from TLS, at one go."""
_NEXT_ADDRESS_SECONDS: Final = 0.25
"""How long an address of a name may take before the next is tried beside it (RFC 8305)."""


class Network(httpcore2.AsyncNetworkBackend):
    """Opens connections."""

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109  # an interface of the library
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> Stream:
        """Connect. Raises ConnectTimeout, ConnectError."""
        assert (local_address, socket_options) == (None, None), "nobody here asks for them"
        loop, stream = asyncio.get_running_loop(), Stream()
        try:
            async with asyncio.timeout(timeout):
                await loop.create_connection(lambda: stream, host, port, happy_eyeballs_delay=_NEXT_ADDRESS_SECONDS)
        except TimeoutError as error:
            raise httpcore2.ConnectTimeout(error) from error
        except (OSError, UnicodeError) as error:  # a name that is none is a UnicodeError
            raise httpcore2.ConnectError(error) from error
        return stream


class Stream(asyncio.BufferedProtocol, httpcore2.AsyncNetworkStream):
    """One connection, for one reader at a time."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._buffer = memoryview(bytearray(_BUFFER_BYTES))
        self._received: list[bytes] = []
        self._unread = 0
        self._paused = False
        self._head_expected = False
        self._ended = False
        self._error: Exception | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._deadline = 0.0
        self._alarm: asyncio.TimerHandle | None = None

    # What asyncio calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Note how to send."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002
        """Where to put what comes."""
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        """Keep what came for the reader."""
        self._received.append(bytes(self._buffer[:nbytes]))
        self._unread += nbytes
        if self._unread > _MOST_UNREAD and not self._paused:
            self._paused = True
            self._connected().pause_reading()
        self._wake()

    def eof_received(self) -> None:
        """Note that nothing more will come."""
        self._ended = True
        self._wake()

    def connection_lost(self, exc: Exception | None) -> None:
        """Note that the connection is gone, and why."""
        self._ended, self._error = True, self._error or exc
        self._wake()

    # What httpcore2 calls, and who reads a watch.

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # noqa: ASYNC109
        """Wait for bytes; none are the end. Raises ReadTimeout when none come in `timeout` seconds, ReadError."""
        while not self._ended and not (self._has_head() if self._head_expected else self._received):
            await self._arrival(timeout)
        if not self._received and self._error is not None:
            raise httpcore2.ReadError(self._error) from self._error
        data = self._received[0] if len(self._received) == 1 else b"".join(self._received)
        end = min(len(data), max_bytes)
        if self._head_expected and (found := data.find(_HEAD_END, 0, end)) >= 0:
            end = found + len(_HEAD_END)
            self._head_expected = data.startswith(b"HTTP/1.1 1")  # after an interim answer comes another head
        self._received = [data[end:]] if end < len(data) else []
        self._unread = len(data) - end
        if self._paused and not self._ended:
            self._paused = False
            self._connected().resume_reading()
        return data[:end]

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:  # noqa: ARG002, ASYNC109
        """Send; never waits, as the bytes are in memory already. That they do not leave shows when no answer comes."""
        if not buffer:
            return
        if self._ended:
            raise httpcore2.WriteError("the connection is closed")
        self._head_expected = True
        self._connected().write(buffer)

    async def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,  # noqa: ASYNC109
    ) -> Stream:
        """Talk TLS from now on. Raises ConnectTimeout, ConnectError."""
        loop, plain = asyncio.get_running_loop(), self._connected()
        try:
            async with asyncio.timeout(timeout):
                self._transport = await loop.start_tls(plain, self, ssl_context, server_hostname=server_hostname)
        except TimeoutError as error:
            raise httpcore2.ConnectTimeout(error) from error
        except OSError as error:  # ssl.SSLError is one
            raise httpcore2.ConnectError(error) from error
        finally:
            if self._transport is plain:
                plain.abort()
        return self

    async def aclose(self) -> None:
        """Close at once: what was to be sent has been answered, or is not wanted any more."""
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        self._ended = True
        self._connected().abort()
        await asyncio.sleep(0)  # in which the socket is closed

    def get_extra_info(self, info: str) -> Any:
        """Of the connection; `is_readable` says of an idle one that the peer has closed it."""
        return bool(self._received or self._ended) if info == "is_readable" else self._connected().get_extra_info(info)

    def _connected(self) -> asyncio.Transport:
        assert self._transport is not None
        return self._transport

    def _has_head(self) -> bool:
        if len(self._received) > 1:
            self._received = [b"".join(self._received)]
        return self._paused or any(_HEAD_END in data for data in self._received)

    async def _arrival(self, timeout: float | None) -> None:  # noqa: ASYNC109
        loop = asyncio.get_running_loop()
        self._waiter = loop.create_future()
        if timeout is not None:
            self._deadline = loop.time() + timeout
            if self._alarm is not None and self._alarm.when() > self._deadline:
                self._alarm.cancel()
                self._alarm = None
            if self._alarm is None:
                self._alarm = loop.call_at(self._deadline, self._look_at_the_clock)
        else:
            self._deadline = float("inf")
        try:
            await self._waiter
        finally:
            self._waiter = None

    def _look_at_the_clock(self) -> None:
        """One alarm serves many reads: that of a read which succeeded goes off in vain, and is set anew if need be."""
        self._alarm = None
        if self._waiter is None or self._waiter.done():
            return
        loop = asyncio.get_running_loop()
        if loop.time() < self._deadline:
            self._alarm = loop.call_at(self._deadline, self._look_at_the_clock)
        else:
            self._waiter.set_exception(httpcore2.ReadTimeout())

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
