"""The end of the server: it waits for the connections that finish, and for no more than these."""

import asyncio
from http import HTTPStatus

from scheduler_plugin.extender import http_server
from scheduler_plugin.extender.http_server import ExtenderServer, Response

REQUEST = b"POST /filter HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}"


async def test_the_end_of_the_last_request_ends_the_server(monkeypatch):
    monkeypatch.setattr(http_server, "_GRACE_SECONDS", 3600.0)
    begun = asyncio.Event()
    handled = []

    def handle(method, path, body):
        handled.append((method, path, body))
        begun.set()
        return Response(HTTPStatus.OK, b"{}")

    server = ExtenderServer("127.0.0.1", 0, handle, max_body_bytes=100)
    await server.start()
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    writer.write(REQUEST + REQUEST[:-1])
    async with asyncio.timeout(20):
        await begun.wait()
        stopping = asyncio.create_task(server.stop())
        await asyncio.sleep(0)
        writer.write(REQUEST[-1:])
        answers = await reader.read()
        await stopping
    assert answers.count(b"HTTP/1.1 200 OK") == len(handled) == 2
    writer.close()
