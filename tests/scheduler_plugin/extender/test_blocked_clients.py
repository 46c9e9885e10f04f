"""Clients that do not read their responses, over real loopback sockets."""

import asyncio
from http import HTTPStatus

from scheduler_plugin.extender import http_server
from scheduler_plugin.extender.http_server import Response
from tests.scheduler_plugin.extender.test_http_server import Client, request
from tests.scheduler_plugin.extender.test_slow_peers import MIB, serving, until


async def test_requests_of_a_client_that_does_not_read_wait_in_its_socket_and_not_in_the_buffer():
    handled = []

    def large(_method, path, _body):
        handled.append(path)
        return Response(HTTPStatus.OK, b'"%b"' % (b"x" * (16 * MIB if path == "/first" else 1)))

    async with serving(large) as server:
        client = Client(*await asyncio.open_connection("127.0.0.1", server.port, limit=16 * MIB))
        client.reader._transport.pause_reading()
        await client.send(request("/first", body=b""))
        await until(lambda: handled)
        count = 2 * http_server._FIRST_BUFFER_BYTES // len(request("/later", body=b""))
        await client.send(request("/later", body=b"") * count)
        for _ in range(20):
            await asyncio.sleep(0.001)
        client.reader._transport.resume_reading()
        for _ in range(1 + count):
            assert (await client.response())[0] == 200
        assert handled == ["/first"] + ["/later"] * count
        client.writer.close()
