"""HTTP server over real loopback sockets: clients that read late, that never end, and that are too many."""

import asyncio
import contextlib
import logging
import re
import resource
import socket
import struct
from http import HTTPStatus

from scheduler_plugin.extender import http_server
from scheduler_plugin.extender.http_server import ExtenderServer, Response
from tests.scheduler_plugin.extender.test_http_server import Client, connected, request

MIB = 2**20
WARNINGS = http_server.log.name


@contextlib.asynccontextmanager
async def serving(handler=lambda *_: Response(HTTPStatus.OK, b"0"), max_body_bytes=100_000):
    """Run a server; everything in the context has ten seconds."""
    server = ExtenderServer("127.0.0.1", 0, handler, max_body_bytes=max_body_bytes)
    await server.start()
    try:
        async with asyncio.timeout(10):
            yield server
    finally:
        await server.stop()


async def until(holds):
    while not holds():
        await asyncio.sleep(0.005)


async def test_a_client_that_reads_late_gets_every_response():
    """The second request arrives with the first, the third after both responses, of which none fits into a socket."""
    handled = []

    def large(_method, path, _body):
        handled.append(path)
        return Response(HTTPStatus.OK, b'"%b"' % (b"x" * 16 * MIB))

    async with serving(large) as server:
        client = Client(*await asyncio.open_connection("127.0.0.1", server.port, limit=16 * MIB))
        client.reader._transport.pause_reading()
        await client.send(request("/first", body=b"") + request("/second", body=b""))
        await until(lambda: handled)
        for _ in range(20):
            await asyncio.sleep(0)
        assert handled == ["/first"]
        client.reader._transport.resume_reading()
        for _ in range(2):
            status, _headers, text = await client.response()
            assert (status, len(text)) == (200, 16 * MIB)
        await client.send(request("/third", body=b""))
        assert (await client.response())[0] == 200
        assert handled == ["/first", "/second", "/third"]
        client.writer.close()


async def test_a_large_body_takes_the_buffers_of_idle_connections_and_leaves_them_open():
    def length(_method, _path, body):
        return Response(HTTPStatus.OK, b"%d" % len(body))

    most = 4 * MIB + http_server.MOST_CONNECTIONS * http_server._FIRST_BUFFER_BYTES
    async with serving(length, max_body_bytes=4 * MIB) as server:
        idle = [await connected(server, request(body=bytes(3 * MIB // 2))) for _ in range(4)]
        for each in idle:
            assert (await each.response())[2] == 3 * MIB // 2
        body = request(body=bytes(4 * MIB))
        large = await connected(server, body[: 3 * MIB])
        await until(lambda: any(each._received == 3 * MIB for each in server._connections))
        assert sum(each.buffer_bytes for each in server._connections) <= most
        await large.send(body[3 * MIB :])
        assert (await large.response())[2] == 4 * MIB
        for each in idle:
            await each.send(request(body=b"12"))
            assert (await each.response())[2] == 2
        for each in (*idle, large):
            each.writer.close()


async def test_the_largest_body_displaces_no_connection_with_a_first_buffer():
    async with serving() as server:
        begun = await connected(server, request()[:50])
        await until(lambda: any(each._received == 50 for each in server._connections))
        large = await connected(server, request(body=bytes(100_000)))
        assert (await large.response())[0] == 200
        await begun.send(request()[50:])
        assert (await begun.response())[0] == 200
        for each in (begun, large):
            each.writer.close()


async def test_a_client_that_resets_its_connection_before_its_second_response_costs_no_error():
    """The first response cannot be written, so the connection is lost before the second request has its turn."""
    errors, client = [], socket.socket()
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _loop, context: errors.append(context))

    def reset(*_):
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        client.close()
        return Response(HTTPStatus.OK, b"0")

    async with serving(reset) as server:
        client.setblocking(False)
        await loop.sock_connect(client, ("127.0.0.1", server.port))
        await loop.sock_sendall(client, request() + request())
        await until(lambda: client.fileno() < 0 and not server._connections)
        assert errors == []


async def test_a_buffer_grows_with_what_was_received_and_not_with_what_was_announced():
    first = http_server._FIRST_BUFFER_BYTES
    async with serving(max_body_bytes=4 * MIB) as server:
        client = await connected(server, request(body=bytes(4 * MIB))[: first + 1])
        await until(lambda: any(each._received == first + 1 for each in server._connections))
        assert [each.buffer_bytes for each in server._connections] == [2 * first]
        client.writer.close()


async def test_at_the_stop_a_request_that_does_not_end_is_not_awaited_for_long(monkeypatch):
    monkeypatch.setattr(http_server, "_GRACE_SECONDS", 0.05)
    async with serving() as server:
        client = await connected(server, request()[:50])
        await until(lambda: any(each._received == 50 for each in server._connections))
        await server.stop()
        with contextlib.suppress(ConnectionError):
            assert await client.is_closed()
        client.writer.close()


async def test_a_process_without_free_file_descriptors_accepts_again_later(monkeypatch, caplog):
    monkeypatch.setattr(http_server, "_SWEEP_SECONDS", 0.01)
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    async with serving() as server:
        connection = socket.socket()
        connection.setblocking(False)
        resource.setrlimit(resource.RLIMIT_NOFILE, (0, limits[1]))
        try:
            await asyncio.get_running_loop().sock_connect(connection, ("127.0.0.1", server.port))
            await until(lambda: "cannot accept a connection: Too many open files" in caplog.messages)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        client = Client(*await asyncio.open_connection(sock=connection))
        await client.send(request())
        assert (await client.response())[0] == 200
        client.writer.close()


async def test_connections_that_gave_way_are_counted_once_in_the_log(monkeypatch, caplog):
    monkeypatch.setattr(http_server, "_SWEEP_SECONDS", 0.01)
    monkeypatch.setattr(http_server, "MOST_CONNECTIONS", 1)
    caplog.set_level(logging.WARNING, WARNINGS)

    def logged():
        return sum(int(re.search(r"closed (\d+) connections", text)[1]) for text in caplog.messages)

    async with serving() as server:
        clients = [await connected(server)]
        for count in range(1, 5):
            clients.append(await connected(server))
            assert await clients[-2].is_closed()
            await until(lambda least=count: logged() >= least)
            assert logged() == count
        for each in clients:
            each.writer.close()
