"""Room for a large request beside one that has begun."""

import pytest

from scheduler_plugin.extender import http_server
from tests.scheduler_plugin.extender.test_http_server import connected, request
from tests.scheduler_plugin.extender.test_slow_peers import serving, until

FIRST = http_server._FIRST_BUFFER_BYTES


@pytest.mark.parametrize(("more", "displaced"), [(0, 0), (1, 1)])
async def test_a_request_that_just_fits_displaces_no_other(more, displaced):
    most = 100_000 + http_server.MOST_CONNECTIONS * FIRST
    async with serving(max_body_bytes=100_000) as server:
        begun = await connected(server, request()[:50])
        await until(lambda: any(each._received == 50 for each in server._connections))
        large = await connected(server)
        await until(lambda: len(server._connections) == 2)
        (other,) = [each for each in server._connections if not each._received]
        server._connections.make_room(other, most - FIRST + more)
        assert server._connections.displaced == displaced
        for each in (begun, large):
            each.writer.close()


async def test_idle_connections_lose_their_buffers_before_one_with_a_request_is_displaced():
    most = 100_000 + http_server.MOST_CONNECTIONS * FIRST
    async with serving(max_body_bytes=100_000) as server:
        idle = await connected(server, request())
        await idle.response()
        begun = await connected(server, request()[:50])
        await until(lambda: any(each._received == 50 for each in server._connections))
        large = await connected(server)
        await until(lambda: len(server._connections) == 3)
        (other,) = [each for each in server._connections if not each.buffer_bytes]
        server._connections.make_room(other, most - FIRST)
        assert sorted(each.buffer_bytes for each in server._connections) == [0, 0, FIRST]
        assert server._connections.displaced == 0
        for each in (idle, begun, large):
            each.writer.close()
