"""Serve connections on loopback, and end with none of them left open."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any, Final

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Coroutine[Any, Any, None]]

_ACCEPT_TURNS: Final = 5
"""Turns of the event loop within which asyncio hands over a connection that it has accepted.

A server that is closed before that leaves the socket of the connection open.
"""


@contextlib.asynccontextmanager
async def served(serve: Serve, tls: ssl.SSLContext | None = None) -> AsyncIterator[int]:
    """Run `serve` for each connection; yield the port. At the end all are cut off, also one just accepted."""
    tasks: dict[asyncio.Task[None], asyncio.StreamWriter] = {}

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(serve(reader, writer))
        tasks[task] = writer
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
        await asyncio.sleep(0)  # the transports close
