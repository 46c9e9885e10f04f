"""How long a request may take to arrive, and a response to be read."""

from http import HTTPStatus

import pytest

from scheduler_plugin.extender import http_server
from scheduler_plugin.extender.http_server import REQUEST_SECONDS, Response
from tests.scheduler_plugin.extender.test_http_server import connected, request
from tests.scheduler_plugin.extender.test_slow_peers import MIB, serving, until


@pytest.mark.parametrize(
    ("seconds", "is_overdue"), [(0, False), (REQUEST_SECONDS - 1, False), (REQUEST_SECONDS + 1, True)]
)
async def test_a_request_that_has_begun_may_take_some_seconds(seconds, is_overdue):
    async with serving() as server:
        client = await connected(server, request()[:50])
        await until(lambda: any(each._received == 50 for each in server._connections))
        (connection,) = server._connections
        assert connection.is_overdue(connection.begun_at + seconds) is is_overdue
        client.writer.close()


async def test_a_client_that_waits_for_no_response_is_never_overdue():
    async with serving() as server:
        client = await connected(server)
        await until(lambda: server._connections)
        (connection,) = server._connections
        assert not connection.is_overdue(connection.usefulness[1] + 1000 * REQUEST_SECONDS)
        await client.send(request())
        await client.response()
        assert not connection.is_overdue(connection.usefulness[1] + 1000 * REQUEST_SECONDS)
        client.writer.close()


@pytest.mark.parametrize(("seconds", "is_overdue"), [(REQUEST_SECONDS - 1, False), (REQUEST_SECONDS + 1, True)])
async def test_a_response_that_is_not_read_may_take_some_seconds(seconds, is_overdue):
    large = Response(HTTPStatus.OK, b'"%b"' % (b"x" * 16 * MIB))
    async with serving(lambda *_: large) as server:
        client = await connected(server)
        client.reader._transport.pause_reading()
        await client.send(request())
        await until(lambda: any(each._blocked_at for each in server._connections))
        (connection,) = server._connections
        assert connection.is_overdue(connection._blocked_at + seconds) is is_overdue
        client.writer.transport.abort()


async def test_sweeps_leave_a_request_that_arrives_slowly_its_connection(monkeypatch):
    monkeypatch.setattr(http_server, "_SWEEP_SECONDS", 0.001)
    sweeps = []
    is_overdue = http_server._Connection.is_overdue
    monkeypatch.setattr(
        http_server._Connection, "is_overdue", lambda self, now: sweeps.append(now) or is_overdue(self, now)
    )
    async with serving() as server:
        client = await connected(server, request()[:50])
        await until(lambda: any(each._received == 50 for each in server._connections))
        before = len(sweeps)
        await until(lambda: len(sweeps) > before + 3)
        await client.send(request()[50:])
        assert (await client.response())[0] == 200
        client.writer.close()
