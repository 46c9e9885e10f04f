"""TCP proxy in front of an apiserver: plain HTTP on loopback, forwarded to the TLS port, with faults on demand.

Existing connections can become silent, as behind a firewall that has dropped their state; connections can be cut or
refused; every request can get a chosen status.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import ssl
import threading
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

_CHUNK_BYTES = 65536
_LAST_SECONDS = 0.1  # for the event loop to release cut connections


class FlakyApiserverProxy:
    """A proxy without faults until one of its methods is called; `recover` ends all faults."""

    def __init__(self, port: int, authority: Path) -> None:
        self.requests_answered = 0
        """Number of requests that the proxy answered instead of the apiserver."""
        self._port = port
        self._trust = ssl.create_default_context(cafile=str(authority))
        self._silent: set[asyncio.Task[Any]] = set()
        self._serving: set[asyncio.Task[None]] = set()
        self._pumps: set[asyncio.Task[None]] = set()
        self._refusing = False
        self._answer: int | None = None
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._server: asyncio.Server = self._do(asyncio.start_server(self._accept, "127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    def close(self) -> None:
        """Cut all connections and stop listening."""
        self._call(self._server.close)
        self._do(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def silence(self) -> None:
        """Stop forwarding bytes of the existing connections in both directions, without closing them. New ones work."""
        self._call(lambda: [self._hush(task) for task in list(self._pumps)])

    def refuse(self) -> None:
        """Cut every connection, and every new one at once."""
        self._refusing = True
        self._call(self._cut)

    def answer(self, status: int) -> None:
        """Answer every request with this status."""
        self._answer = status
        self._call(self._cut)

    def recover(self) -> None:
        """Forward bytes again, for new connections."""
        self._refusing, self._answer = False, None
        self._call(self._cut)

    def _do(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(10)

    def _call(self, act: Callable[[], object]) -> None:
        async def now() -> None:
            act()

        self._do(now())

    def _cut(self) -> None:
        for task in list(self._serving):
            task.cancel()

    async def _end(self) -> None:
        self._cut()
        await asyncio.gather(*self._serving, *self._pumps, return_exceptions=True)
        await self._server.wait_closed()
        await asyncio.sleep(_LAST_SECONDS)

    def _hush(self, pump: asyncio.Task[None]) -> None:
        self._silent.add(pump)
        pump.cancel()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._serving.add(task)
        try:
            if self._answer is not None:
                await self._answer_all(reader, writer, self._answer)
            elif not self._refusing:
                await self._carry(reader, writer)
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            self._serving.discard(task)
            writer.transport.abort()

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection("127.0.0.1", self._port, ssl=self._trust)
        pumps = [asyncio.ensure_future(self._pump(*way)) for way in ((reader, back), (there, writer))]
        self._pumps.update(pumps)
        try:
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
            if self._silent & set(pumps):
                await asyncio.Event().wait()  # both ends keep their connection and receive nothing
        finally:
            for pump in pumps:
                pump.cancel()
            self._pumps.difference_update(pumps)
            self._silent.difference_update(pumps)
            back.transport.abort()

    async def _pump(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await source.read(_CHUNK_BYTES):
                sink.write(data)
                await sink.drain()

    async def _answer_all(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, status: int) -> None:
        body = json.dumps({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": status}).encode()
        head = f"HTTP/1.1 {status} No\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        while True:
            request = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
            length = next((int(line[15:]) for line in request.split("\r\n") if line.startswith("content-length:")), 0)
            await reader.readexactly(length)
            self.requests_answered += 1
            writer.write(head.encode() + body)
            await writer.drain()
