"""Heads of requests at their largest size, and heads of responses, over real loopback sockets."""

import asyncio
from http import HTTPStatus

import pytest

from scheduler_plugin.extender import http_head, http_server
from scheduler_plugin.extender.http_server import Response
from tests.scheduler_plugin.extender.test_http_server import connected, request
from tests.scheduler_plugin.extender.test_slow_peers import serving, until


def with_head_of(size):
    """Return a request with a head of so many bytes, without its end."""
    plain = request(body=b"")
    head = len(plain) - len(http_head.HEAD_END)
    filler = "X: " + "x" * (size - head - len("X: \r\n")) + "\r\n"
    return request(body=b"", extra=filler)


@pytest.mark.parametrize(("more", "status"), [(0, 200), (1, 431)])
async def test_a_head_of_the_largest_size_is_read_and_a_larger_one_is_refused(more, status):
    async with serving() as server:
        client = await connected(server, with_head_of(http_head.MAX_HEAD_BYTES + more))
        assert (await client.response())[0] == status
        client.writer.close()


@pytest.mark.parametrize(
    ("status", "allowed"),
    [(HTTPStatus.OK, None), (HTTPStatus.METHOD_NOT_ALLOWED, "post"), (HTTPStatus.NOT_FOUND, None)],
)
async def test_only_a_refused_method_gets_the_methods_that_are_allowed(status, allowed):
    async with serving(lambda *_: Response(status, b"0")) as server:
        client = await connected(server, request())
        found, headers, _body = await client.response()
        assert (found, headers.get("allow")) == (status, allowed)
        assert headers["content-type"] == "application/json"
        client.writer.close()


async def test_work_after_a_response_is_done_once_after_it_was_written():
    done = []
    async with serving(lambda *_: Response(HTTPStatus.OK, b"0", lambda: done.append("then"))) as server:
        client = await connected(server, request())
        await client.response()
        await client.send(request())
        await client.response()
        client.writer.close()
    assert done == ["then", "then"]


async def test_a_head_request_gets_the_length_of_the_body_without_the_body():
    async with serving(lambda *_: http_server.error_response(HTTPStatus.NOT_FOUND, "no")) as server:
        client = await connected(server, request(method="HEAD", extra="Connection: close\r\n"))
        text = await client.reader.read()
        assert text.startswith(b"HTTP/1.1 404 Not Found\r\n")
        assert b"Content-Length: 14\r\n" in text  # {"Error":"no"}
        assert text.endswith(b"\r\n\r\n")
        client.writer.close()


async def test_the_last_response_before_the_end_announces_that_the_connection_closes():
    async with serving() as server:
        client = await connected(server, request()[:50])
        await until(lambda: any(each._received == 50 for each in server._connections))
        stopping = asyncio.create_task(server.stop())
        await until(lambda: server._listener is None or server._listener.fileno() < 0)
        await client.send(request()[50:])
        status, headers, _body = await client.response()
        assert (status, headers["connection"]) == (200, "close")
        await stopping
        client.writer.close()


async def test_a_head_of_the_largest_size_may_arrive_before_its_end():
    data, most = with_head_of(http_head.MAX_HEAD_BYTES), http_head.MAX_HEAD_BYTES
    async with serving() as server:
        client = await connected(server, data[:most])
        await until(lambda: any(each._received >= most for each in server._connections))
        await client.send(data[most:])
        assert (await client.response())[0] == 200
        client.writer.close()
