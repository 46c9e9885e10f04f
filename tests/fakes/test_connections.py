"""A server of a test leaves no socket to the garbage collector, which would fail whatever test runs then."""

import asyncio
import contextlib
import gc
import socket

import pytest

from tests.fakes import connections


@pytest.mark.parametrize("turns", range(8))
def test_a_connection_accepted_just_before_the_end_is_closed(turns):
    async def end_after_turns():
        async with connections.served(read) as port:
            client = socket.create_connection(("127.0.0.1", port))
            for _ in range(turns):
                await asyncio.sleep(0)
        return client

    async def read(reader, _writer):
        await reader.read()

    with asyncio.run(end_after_turns()) as client:
        gc.collect()  # a socket that is left open is a warning, and a warning an error
        with contextlib.suppress(ConnectionResetError):  # it was not accepted yet
            assert client.recv(1) == b""
