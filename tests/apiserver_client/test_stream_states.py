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
