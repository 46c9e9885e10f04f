"""Serve connections on loopback, and end with none of them left open."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import weakref
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any, Final

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Coroutine[Any, Any, None]]

_ACCEPT_TURNS: Final = 5
"""Turns of the event loop within which asyncio hands over a connection that it has accepted.

A server that is closed before that leaves the socket of the connection open.
"""
_CLOSE_TURNS: Final = 3
"""Turns of the event loop within which it closes the socket of an aborted connection, with TLS or without."""


@contextlib.asynccontextmanager
async def served(serve: Serve, tls: ssl.SSLContext | None = None) -> AsyncIterator[int]:
    """Run `serve` for each connection; yield the port. At the end all are cut off, also one just accepted."""
    tasks: dict[asyncio.Task[None], asyncio.StreamWriter] = {}
    transports: weakref.WeakSet[asyncio.WriteTransport] = weakref.WeakSet()

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(serve(reader, writer))
        tasks[task] = writer
        transports.add(writer.transport)
        task.add_done_callback(ended)

    def ended(task: asyncio.Task[None]) -> None:
        tasks.pop(task).close()  # a task that is cancelled before its first step closes nothing itself

    server = await asyncio.start_server(accept, "127.0.0.1", 0, ssl=tls)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        asyncio.get_running_loop().remove_reader(server.sockets[0].fileno())  # accepts no more
        for _ in range(_ACCEPT_TURNS):
            await asyncio.sleep(0)
        server.close()
        running = list(tasks)
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        for transport in list(transports):
            transport.abort()  # one that only closes waits for its client: to read, or to end TLS
        for _ in range(_CLOSE_TURNS):
            await asyncio.sleep(0)
