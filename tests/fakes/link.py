"""A link to a server on loopback, which a test cuts as a partition of the network does.

async with link.to(server.url) as own:
    ...                                   # a client of own.url reaches the server
    own.cut(apiserver.HANG)               # or ABORT
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from urllib.parse import urlsplit

from tests.fakes import connections
from tests.fakes.apiserver import Move

_MOST_BYTES = 65_536


class Link:
    """Connections that pass every byte on until they are cut. A cut link stays so, for new connections too."""

    def __init__(self, port: int) -> None:
        self.url = ""
        self._port = port
        self._cut: Move | None = None
        self._writers: set[asyncio.StreamWriter] = set()

    def cut(self, how: Move) -> None:
        """Drop every byte of both directions from now on, or reset every connection."""
        self._cut = how
        if how is Move.ABORT:
            for writer in self._writers:
                writer.transport.abort()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._cut is Move.ABORT:
            writer.transport.abort()
            return
        from_server, to_server = await asyncio.open_connection("127.0.0.1", self._port)
        both = {writer, to_server}
        self._writers |= both
        try:
            await asyncio.gather(self._pass_on(reader, to_server), self._pass_on(from_server, writer))
        except ConnectionError:
            pass
        finally:
            self._writers -= both
            for each in both:
                each.transport.abort()

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while sent := await reader.read(_MOST_BYTES):
            if self._cut is None:
                writer.write(sent)
                await writer.drain()
        raise ConnectionResetError  # ends the other direction too


@contextlib.asynccontextmanager
async def to(url: str) -> AsyncIterator[Link]:
    """Open a link to the server at a URL."""
    port = urlsplit(url).port
    assert port is not None
    made = Link(port)
    async with connections.served(made.serve) as own:
        made.url = f"http://127.0.0.1:{own}"
        yield made
