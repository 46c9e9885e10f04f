"""States of a connection: who speaks first, bytes before a reset, a closed stream."""

import asyncio
import contextlib
import socket
import struct

import httpcore2
import pytest

from apiserver_client import sockets

HEAD = b"HTTP/1.1 200 OK\r\n\r\n"
RESET_AT_CLOSE = struct.pack("ii", 1, 0)


@contextlib.asynccontextmanager
async def connected():
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


async def test_a_peer_may_speak_first():
    async with connected() as (stream, peer):
        peer.sendall(b"hello")
        assert await stream.read(100, 2.0) == b"hello"


async def test_bytes_that_arrive_apart_are_read_together_and_in_order():
    async with connected() as (stream, peer):
        for piece, unread in ((b"ab", 2), (b"cd", 4)):
            peer.sendall(piece)
            await until(lambda unread=unread: stream._unread == unread)
        assert await stream.read(100, 2.0) == b"abcd"


async def test_bytes_before_a_reset_are_read_and_then_the_reset_is_an_error():
    async with connected() as (stream, peer):
        await stream.write(b"GET")
        peer.recv(3)
        peer.sendall(HEAD + b"body")
        assert await stream.read(100, 2.0) == HEAD
        reset(peer)
        await until(lambda: stream._ended)
        assert await stream.read(100, 2.0) == b"body"
        with pytest.raises(httpcore2.ReadError):
            await stream.read(100, 2.0)


async def test_bytes_before_the_loss_of_a_paused_connection_are_read():
    sent = b"x" * 2**18
    async with connected() as (stream, peer):
        peer.settimeout(5.0)
        sending = asyncio.create_task(asyncio.to_thread(peer.sendall, sent))
        await until(lambda: stream._paused)
        await stream.aclose()
        await until(lambda: stream._transport is None)
        received = await stream.read(2**20, 2.0)
        with contextlib.suppress(OSError):
            await sending
    assert received
    assert sent.startswith(received)


async def test_nothing_is_written_to_a_stream_from_the_begin_of_its_close():
    async with connected() as (stream, _peer):
        closing = asyncio.create_task(stream.aclose())
        await asyncio.sleep(0)
        assert stream.get_extra_info("is_readable"), "the pool uses it no longer"
        with pytest.raises(httpcore2.WriteError):
            await stream.write(b"GET")
        await closing


async def test_properties_of_a_connection_are_known_while_it_is_open():
    async with connected() as (stream, peer):
        assert stream.get_extra_info("peername") == peer.getsockname()
        assert not stream.get_extra_info("is_readable")
        await stream.aclose()
        await until(lambda: stream._transport is None)
        assert stream.get_extra_info("peername") is None
        assert stream.get_extra_info("is_readable"), "the pool uses it no longer"


async def test_a_peer_that_sends_faster_than_the_reader_reads_is_paused_every_time():
    most = 2**16 + 2**15  # what may wait for the reader, and one more read
    async with connected() as (stream, peer):
        peer.settimeout(5.0)
        sending = asyncio.create_task(asyncio.to_thread(peer.sendall, b"x" * 2**20))
        received = 0
        while received < 2**20:
            await until(lambda received=received: stream._paused or received + stream._unread == 2**20)
            for _ in range(20):
                await asyncio.sleep(0)
            assert stream._unread <= most
            received += len(await stream.read(2**20, 2.0))
        await sending


async def test_a_reset_ends_a_read_that_waits():
    async with connected() as (stream, peer):
        reading = asyncio.create_task(stream.read(100, 30.0))
        await until(lambda: stream._waiter is not None)
        reset(peer)
        async with asyncio.timeout(10):
            with pytest.raises(httpcore2.ReadError):
                await reading


async def test_a_deadline_that_passes_while_no_component_reads_is_no_error(caplog):
    async with connected() as (stream, peer):
        reading = asyncio.create_task(stream.read(100, 0.5))
        await until(lambda: stream._waiter is not None)
        peer.sendall(b"first")
        assert await reading == b"first"
        await until(lambda: stream._timer is None)
        peer.sendall(b"second")
        assert await stream.read(100, 30.0) == b"second"
    assert caplog.records == []


@pytest.mark.parametrize("cut", range(1, 4))
async def test_the_blank_line_of_a_header_may_arrive_in_two_pieces(cut):
    async with connected() as (stream, peer):
        await stream.write(b"GET")
        peer.sendall(HEAD[:-cut])
        await until(lambda: stream._unread == len(HEAD) - cut)
        peer.sendall(HEAD[-cut:])
        assert await stream.read(100, 5.0) == HEAD
