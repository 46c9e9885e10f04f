"""A server of a test leaves no socket to the garbage collector, which would fail whatever test runs then."""

import asyncio
import contextlib
import gc
import socket
import ssl

import pytest

from tests.fakes import certificates, connections


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


@pytest.mark.parametrize("ends", [False, True], ids=["while it is served", "after it was served"])
def test_a_connection_whose_client_does_not_read_is_closed(ends):
    async def end_with_unread_answer():
        async def answer(reader, writer):
            writer.write(b"x" * 2**24)
            writer.close()
            answered.set()
            if not ends:
                await reader.read()

        answered = asyncio.Event()
        async with connections.served(answer) as port:
            client = socket.create_connection(("127.0.0.1", port))
            await answered.wait()
            await asyncio.sleep(0)
        return client

    with asyncio.run(end_with_unread_answer()):
        gc.collect()


def test_a_tls_connection_whose_client_is_silent_is_closed(tmp_path):
    certificate = certificates.make(tmp_path, "server")

    def connect(port):
        context = ssl.create_default_context(cafile=certificate.certificate_path)
        return context.wrap_socket(socket.create_connection(("127.0.0.1", port)), server_hostname="127.0.0.1")

    async def end_while_silent():
        async def read(reader, _writer):
            served.set()
            await reader.read()

        served = asyncio.Event()
        async with connections.served(read, certificate.server_context()) as port:
            client = await asyncio.to_thread(connect, port)
            await served.wait()
        return client

    with asyncio.run(end_while_silent()):
        gc.collect()
