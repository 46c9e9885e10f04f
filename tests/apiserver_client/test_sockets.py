import asyncio
import contextlib
import gc
import socket
import ssl
import struct
import weakref
from asyncio import sslproto

import httpcore2
import pytest

from apiserver_client import sockets
from tests.fakes import certificates, connections

RESET_AT_CLOSE = struct.pack("ii", 1, 0)
HEAD = b"HTTP/1.1 200 OK\r\nA: b\r\n\r\n"

pytestmark = pytest.mark.slow


@contextlib.asynccontextmanager
async def connected(serve):
    """Yield a stream to a server that runs `serve(reader, writer)` and then closes."""
    done = asyncio.Event()

    async def answer(reader, writer):
        with contextlib.suppress(ConnectionError):
            await serve(reader, writer)
        writer.close()
        done.set()

    async with connections.served(answer) as port:
        stream = await sockets.Network().connect_tcp("127.0.0.1", port, 5.0)
        yield stream
        await stream.aclose()
        await done.wait()


def sending(*pieces):
    """Yield a stream to a server that answers the first bytes with `pieces`, one by one."""

    async def serve(reader, writer):
        await reader.read(100)
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(0.001)

    return serve


@pytest.mark.parametrize(
    "pieces",
    [(HEAD + b"body",), (HEAD, b"body"), (HEAD[:-2], HEAD[-2:] + b"body"), (HEAD[:5], HEAD[5:9], HEAD[9:] + b"body")],
    ids=["at once", "apart", "cut in the end of the head", "cut in the head"],
)
async def test_the_first_read_after_a_write_ends_with_the_header(pieces):
    async with connected(sending(*pieces)) as stream:
        await stream.write(b"GET")
        assert await stream.read(1000, 5.0) == HEAD
        assert await stream.read(1000, 5.0) == b"body"
        assert await stream.read(1000, 5.0) == b""


async def test_each_read_has_its_own_timeout():
    speak = asyncio.Event()

    async def serve(reader, writer):
        await reader.read(100)
        writer.write(HEAD)
        await speak.wait()
        writer.write(b"late")
        await reader.read(100)

    async with connected(serve) as stream:
        await stream.write(b"GET")
        assert await stream.read(1000, 60.0) == HEAD
        for _ in range(2):
            with pytest.raises(httpcore2.ReadTimeout):
                await stream.read(1000, 0.005)
        patient = asyncio.create_task(stream.read(1000, None))
        await asyncio.sleep(0.01)
        speak.set()
        assert await patient == b"late"


async def test_pauses_a_fast_peer_and_loses_nothing():
    sent, chunk = 0, b"x" * 2**16

    async def serve(reader, writer):
        nonlocal sent
        await reader.read(100)
        writer.write(HEAD)
        for _ in range(400):
            writer.write(chunk)
            await writer.drain()
            sent += len(chunk)

    async with connected(serve) as stream:
        await stream.write(b"GET")
        await stream.read(1000, 5.0)
        async with asyncio.timeout(20):
            while not stream._paused:
                await asyncio.sleep(0.001)
        assert stream._unread < 2**18
        assert sent < 400 * len(chunk)
        read = 0
        while data := await stream.read(2**20, 5.0):
            read += len(data)
    assert read == 400 * len(chunk)


async def test_bytes_before_the_loss_of_the_connection_are_read_first():
    async def serve(reader, writer):
        await reader.read(100)
        writer.write(HEAD + b"body")
        await writer.drain()
        await reader.read(100)
        writer.transport.abort()

    async with connected(serve) as stream:
        await stream.write(b"GET")
        assert await stream.read(1000, 5.0) == HEAD
        stream._transport.write(b"go on")
        while not stream.get_extra_info("is_readable"):
            await asyncio.sleep(0.001)
        assert await stream.read(1000, 5.0) == b"body"


async def test_an_idle_connection_that_the_peer_closed_shows():
    async with connected(sending(HEAD)) as stream:
        assert not stream.get_extra_info("is_readable")
        await stream.write(b"GET")
        await stream.read(1000, 5.0)
        while not stream.get_extra_info("is_readable"):
            await asyncio.sleep(0.001)
        with pytest.raises(httpcore2.WriteError):
            await stream.write(b"GET")


async def test_an_invalid_name_is_a_connect_error():
    with pytest.raises(httpcore2.ConnectError):
        await sockets.Network().connect_tcp("a" * 70, 1, 5.0)


@pytest.mark.parametrize("turns", range(16))
@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
async def test_a_connect_that_is_cancelled_leaves_no_socket_open(host, turns):
    async with connections.served(_silent) as port:
        connecting = asyncio.create_task(sockets.Network().connect_tcp(host, port, 5.0))
        for _ in range(turns):
            await asyncio.sleep(0)
        connecting.cancel()
        with contextlib.suppress(asyncio.CancelledError):  # it may be connected already
            await (await connecting).aclose()
    gc.collect()  # a socket that is left open is a warning, and a warning an error


@pytest.mark.parametrize("turns", range(24))
async def test_a_tls_handshake_that_is_cancelled_leaves_no_socket_open(turns, server_certificate):
    context = ssl.create_default_context(cafile=server_certificate.certificate_path)
    async with connections.served(_silent, server_certificate.server_context()) as port:
        stream = await sockets.Network().connect_tcp("127.0.0.1", port, 5.0)
        handshake = asyncio.create_task(stream.start_tls(context, "127.0.0.1", 5.0))
        for _ in range(turns):
            await asyncio.sleep(0)
        handshake.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await (await handshake).aclose()
    gc.collect()


@pytest.fixture(scope="module")
def server_certificate(tmp_path_factory):
    return certificates.make(tmp_path_factory.mktemp("tls"), "server")


async def _silent(reader, _writer):
    await reader.read()


@contextlib.contextmanager
def _refusing():
    """Yield an address that refuses connections."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield bound.getsockname()


@contextlib.contextmanager
def _without_answer():
    """Yield an address that does not answer: the queue of its listener is full."""
    with socket.create_server(("127.0.0.1", 0), backlog=0) as full, socket.create_connection(full.getsockname()):
        yield full.getsockname()


@pytest.mark.parametrize("first", [_refusing, _without_answer])
async def test_the_next_address_is_tried_where_the_first_fails_or_does_not_answer(first, monkeypatch):
    async with connections.served(_silent) as port:
        with first() as bad:

            async def known(*_arguments, **_options):
                return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", each) for each in (bad, ("127.0.0.1", port))]

            monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", known)
            stream = await sockets.Network().connect_tcp("name.example", port, 5.0)
            assert stream.get_extra_info("peername") == ("127.0.0.1", port)
            await stream.aclose()
    gc.collect()


@pytest.mark.parametrize("who", ["this side", "the peer"])
async def test_a_closed_tls_connection_leaves_its_buffers_at_once(who, tmp_path):
    """Without a garbage collection, because a full one is rare, and each connection has 256 KiB."""
    certificate = certificates.make(tmp_path, "server")
    closing = asyncio.Event()

    async def answer(reader, writer):
        await closing.wait()
        writer.close()

    context = ssl.create_default_context(cafile=certificate.certificate_path)
    async with connections.served(answer, certificate.server_context()) as port:
        gc.collect()
        gc.disable()
        try:
            stream = await sockets.Network().connect_tcp("127.0.0.1", port, 5.0)
            await stream.start_tls(context, "127.0.0.1", 5.0)
            of_tls = weakref.ref(stream._transport._ssl_protocol)
            assert isinstance(of_tls(), sslproto.SSLProtocol)
            if who == "the peer":
                closing.set()
                assert await stream.read(100, 5.0) == b""
            await stream.aclose()
            closing.set()
            for _ in range(100):
                await asyncio.sleep(0.01)
                if of_tls() is None:
                    break
            assert of_tls() is None
        finally:
            gc.enable()


@contextlib.asynccontextmanager
async def accepted():
    """Yield a stream and the socket of its peer."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        stream = await sockets.Network().connect_tcp("127.0.0.1", listener.getsockname()[1], 5.0)
        peer, _ = listener.accept()
        with peer:
            yield stream, peer
            await stream.aclose()


def reset(peer):
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_AT_CLOSE)
    peer.close()


async def until(condition):
    async with asyncio.timeout(10):
        while not condition():
            await asyncio.sleep(0.001)


async def test_bytes_before_a_reset_are_read_and_then_the_reset_is_an_error():
    async with accepted() as (stream, peer):
        await stream.write(b"GET")
        peer.recv(3)
        peer.sendall(HEAD + b"body")
        assert await stream.read(100, 2.0) == HEAD
        reset(peer)
        await until(lambda: stream._ended)
        assert await stream.read(100, 2.0) == b"body"
        with pytest.raises(httpcore2.ReadError):
            await stream.read(100, 2.0)


async def test_nothing_is_written_to_a_stream_from_the_begin_of_its_close():
    async with accepted() as (stream, _peer):
        closing = asyncio.create_task(stream.aclose())
        await asyncio.sleep(0)
        assert stream.get_extra_info("is_readable"), "the pool uses it no longer"
        with pytest.raises(httpcore2.WriteError):
            await stream.write(b"GET")
        await closing


async def test_a_deadline_that_passes_while_no_component_reads_is_no_error(caplog):
    async with accepted() as (stream, peer):
        reading = asyncio.create_task(stream.read(100, 0.5))
        await until(lambda: stream._waiter is not None)
        peer.sendall(b"first")
        assert await reading == b"first"
        await until(lambda: stream._timer is None)
        peer.sendall(b"second")
        assert await stream.read(100, 30.0) == b"second"
    assert caplog.records == []
