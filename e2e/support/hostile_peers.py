"""Clients that occupy a TLS port: they send no whole request, or requests without end. Many of them, from one thread.

They have an address of their own, as a container in a cluster has.
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
import ssl
import threading
from collections.abc import Iterator
from typing import Final, NamedTuple

_ADDRESS: Final = "127.0.0.2"
_BODY_BYTES: Final = 8 * 2**20  # the most that the extender takes
_PAUSE_SECONDS: Final = 0.5
_OPENED_AT_ONCE: Final = 10  # or handshakes of callers would not complete either


class _Kind(NamedTuple):
    is_caller: bool
    """Whether it completes the handshake, with a certificate that the server accepts."""
    first: bytes
    then: bytes
    """Sent after each pause."""


class HostilePeers:
    """Peers of each kind, whose connections are opened once and not again."""

    def __init__(self, port: int, context: ssl.SSLContext) -> None:
        """Prepare peers; `context` has the certificate of a caller."""
        self._port = port
        self._context = context
        hello = _hello(context)
        request = b"POST /filter HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n"
        self._kinds = {
            "silent": _Kind(False, b"", b""),
            "half a hello": _Kind(False, hello[:100], b""),
            "no end of the handshake": _Kind(False, hello, b""),
            "slow head": _Kind(True, b"POST /filter HTTP/1.1\r\nX: ", b"x"),
            "slow body": _Kind(True, request % _BODY_BYTES + bytes(_BODY_BYTES // 2), b"x"),
            "endless requests": _Kind(True, request % 2 + b"{}", request % 2 + b"{}"),
        }
        self.connected: collections.Counter[str] = collections.Counter()
        """Connections so far, by kind."""
        self.open: collections.Counter[str] = collections.Counter()
        """Connections that the server has not closed yet, by kind."""
        self._released = threading.Event()

    @contextlib.contextmanager
    def connecting(self, count: int) -> Iterator[None]:
        """Open `count` connections, as many of each kind; close those that are left at the end."""
        thread = threading.Thread(target=lambda: asyncio.run(self._run(count)))
        thread.start()
        try:
            yield
        finally:
            self._released.set()
            thread.join()

    async def _run(self, count: int) -> None:
        gate = asyncio.Semaphore(_OPENED_AT_ONCE)
        names = list(self._kinds)
        peers = [asyncio.create_task(self._peer(names[index % len(names)], gate)) for index in range(count)]
        await asyncio.to_thread(self._released.wait)
        for peer in peers:
            peer.cancel()
        await asyncio.gather(*peers, return_exceptions=True)

    async def _peer(self, name: str, gate: asyncio.Semaphore) -> None:
        kind = self._kinds[name]
        context = self._context if kind.is_caller else None
        with contextlib.suppress(OSError):  # also of TLS
            async with gate:
                self.connected[name] += 1
                self.open[name] += 1
                streams = await asyncio.open_connection("127.0.0.1", self._port, ssl=context, local_addr=(_ADDRESS, 0))
            await self._talk(*streams, kind)
        self.open[name] -= 1

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, kind: _Kind) -> None:
        """Send until the server closes the connection."""
        try:
            writer.write(kind.first)
            while not self._released.is_set():
                try:
                    if not await asyncio.wait_for(reader.read(2**16), _PAUSE_SECONDS):
                        return
                except TimeoutError:
                    writer.write(kind.then)
        finally:
            writer.transport.abort()


def _hello(context: ssl.SSLContext) -> bytes:
    """Return the first message of a client."""
    outgoing = ssl.MemoryBIO()
    client = context.wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname="127.0.0.1")
    with contextlib.suppress(ssl.SSLWantReadError):
        client.do_handshake()
    return outgoing.read()
