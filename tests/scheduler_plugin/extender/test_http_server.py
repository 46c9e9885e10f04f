"""HTTP server over real loopback sockets."""

import asyncio
import contextlib
import json
from http import HTTPStatus

import pytest

from component_base.http_endpoint import CannotListen
from scheduler_plugin.extender import dispatcher, http_server, metrics
from scheduler_plugin.extender.http_server import ExtenderServer, Response
from tests.scheduler_plugin import factories
from tests.scheduler_plugin.factories import NOW

LIMIT = 100_000


BODY = factories.request(factories.pod_document(), ["n1"])


class Client:
    """A connection that sends the given bytes and reads whole responses."""

    def __init__(self, reader, writer):
        self.reader, self.writer = reader, writer

    async def send(self, data):
        self.writer.write(data)
        await self.writer.drain()

    async def response(self):
        head = (await self.reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        headers = dict(line.lower().split(": ", 1) for line in head[1:] if line)
        body = await self.reader.readexactly(int(headers["content-length"]))
        return int(head[0].split(" ")[1]), headers, json.loads(body)

    async def is_closed(self):
        return await self.reader.read(1) == b""


def request(path="/filter", body=BODY, method="POST", extra=""):
    head = f"{method} {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n{extra}\r\n"
    return head.encode() + body


@pytest.fixture
def unsynced():
    return []


@pytest.fixture
async def server(unsynced):
    parts = factories.parts()
    parts.cluster.node_changed(factories.node("n1"))
    counted = metrics.RequestMetrics(metrics.CollectorRegistry())
    dispatch = dispatcher.Dispatcher(parts.extender, counted, lambda: unsynced, lambda: NOW)
    server = ExtenderServer("127.0.0.1", 0, dispatch, max_body_bytes=LIMIT)
    await server.start()
    yield server
    await server.stop()


@pytest.fixture
async def client(server):
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    yield Client(reader, writer)
    writer.close()


async def test_a_request_may_arrive_in_any_pieces(client):
    data = request()
    for index in range(0, len(data), 7):
        await client.send(data[index : index + 7])
        await asyncio.sleep(0)
    assert (await client.response())[0] == 200


async def test_a_body_that_is_too_large_is_refused_before_it_is_sent(client):
    await client.send(request(body=b"")[:-4].replace(b"Content-Length: 0", b"Content-Length: 100001") + b"\r\n\r\n")
    status, headers, document = await client.response()
    assert (status, headers["connection"]) == (413, "close")
    assert "nodeCacheCapable: true" in document["Error"]
    assert await client.is_closed()


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (b"\r\n\r\n" + b"x" * 20_000, 400),
        (b"nonsense\r\n\r\n", 400),
        (b"POST /filter HTTP/2\r\n\r\n", 400),
        (b"POST /filter HTTP/1.1\r\nno colon\r\n\r\n", 400),
        (b"POST /filter HTTP/1.1\r\nContent-Length: -1\r\n\r\n", 400),
        (b"POST /filter HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", 400),
        (b"POST /filter HTTP/1.1\r\nHost: x\r\n\r\n", 411),
        (b"POST /filter HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n", 411),
        (b"POST /filter HTTP/1.1\r\nX: " + b"x" * 17_000, 431),
        (b"\x00" * 20_000, 431),
    ],
)
async def test_a_request_without_a_clear_end_closes_the_connection(client, head, status):
    await client.send(head)
    status_code, _headers, document = await client.response()
    assert status_code == status
    assert document["Error"]
    assert await client.is_closed()


@pytest.mark.parametrize(
    ("data", "status", "words"),
    [
        (request(body=b"{"), 400, "want what kube-scheduler sends"),
        (request("/permit"), 404, "want one of /filter /prioritize /preempt /bind"),
        (request(method="GET", body=b""), 405, "got method GET, want POST"),
    ],
)
async def test_a_wrong_request_gets_the_cause_and_the_connection_stays(client, data, status, words):
    await client.send(data)
    status_code, _headers, document = await client.response()
    assert status_code == status
    assert words in document["Error"]
    await client.send(request())
    assert (await client.response())[0] == 200


async def test_responds_unavailable_before_the_caches_are_synced(client, unsynced):
    unsynced.append("node_metrics")
    await client.send(request())
    status, _headers, document = await client.response()
    assert status == 503
    assert "first list of node_metrics" in document["Error"]
    unsynced.clear()
    await client.send(request())
    assert (await client.response())[0] == 200


async def test_stop_finishes_partly_received_requests_and_closes_idle_connections(server, client):
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    data = request()
    await client.send(data)
    await client.response()
    await client.send(data[:100])
    await Client(reader, writer).send(data)
    await Client(reader, writer).response()  # whatever came before it has been received too
    stopping = asyncio.create_task(server.stop())
    assert await reader.read(1) == b""
    await client.send(data[100:])
    assert (await client.response())[0] == 200
    assert await client.is_closed()
    await stopping
    writer.close()


async def test_a_port_in_use_is_named(server):
    other = ExtenderServer("127.0.0.1", server.port, lambda *_: None, max_body_bytes=1)
    with pytest.raises(CannotListen, match=f"cannot listen on 127.0.0.1:{server.port} for kube-scheduler"):
        await other.start()


@pytest.fixture
def impatient(monkeypatch):
    monkeypatch.setattr(http_server, "REQUEST_SECONDS", 0.2)
    monkeypatch.setattr(http_server, "_SWEEP_SECONDS", 0.02)


@pytest.mark.parametrize("begun", [b"POST", request()[:-3], b"POST /filter HTTP/1.1\nHost: x\n\n"])
async def test_a_request_that_does_not_end_closes_its_connection(impatient, client, begun):
    await client.send(begun)
    assert await client.is_closed()


async def test_a_client_that_does_not_read_is_not_served_further_and_loses_its_connection(impatient):
    served = []

    def large(_method, _path, _body):
        served.append(1)
        return Response(HTTPStatus.OK, b"x" * 2**20)

    server = ExtenderServer("127.0.0.1", 0, large, max_body_bytes=LIMIT)
    await server.start()
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port, limit=1)
    reader._transport.pause_reading()
    with contextlib.suppress(ConnectionError):
        for _ in range(200):
            writer.write(request(body=b"{}"))
            await writer.drain()
            await asyncio.sleep(0)
    while server._connections:
        await asyncio.sleep(0.01)
    assert len(served) < 20
    writer.transport.abort()
    await server.stop()


async def connected(server, *sent, address="127.0.0.1"):
    """Open a connection from an address, which sends something."""
    client = Client(*await asyncio.open_connection("127.0.0.1", server.port, local_addr=(address, 0)))
    for data in sent:
        await client.send(data)
    return client


async def served(client):
    await client.send(request())
    return (await client.response())[0] == 200


async def test_of_too_many_connections_the_least_useful_one_gives_way(monkeypatch, server):
    monkeypatch.setattr(http_server, "MOST_CONNECTIONS", 3)
    caller = await connected(server)
    assert await served(caller)
    first, second = [await connected(server, b"POST /filter HTTP/1.1\r\nX: x") for _ in range(2)]
    third = await connected(server, b"POST /filter HTTP/1.1\r\nX: x")
    assert await first.is_closed()
    latest = await connected(server)
    assert await second.is_closed()
    assert await served(latest)
    assert await served(caller)
    assert len(server._connections) == 3
    for each in (caller, first, second, third, latest):
        each.writer.close()


async def test_callers_at_one_address_take_no_connection_from_another_address(monkeypatch, server):
    monkeypatch.setattr(http_server, "MOST_CONNECTIONS", 3)
    caller = await connected(server)
    assert await served(caller)
    others = [await connected(server, address="127.0.0.2") for _ in range(3)]
    for each in others[1:]:
        assert await served(each)
    assert await others[0].is_closed()
    assert await served(caller)
    for each in (caller, *others):
        each.writer.close()


async def test_unfinished_bodies_are_bounded_together():
    def length(_method, _path, body):
        return Response(HTTPStatus.OK, b"%d" % len(body))

    size = 2**23
    server = ExtenderServer("127.0.0.1", 0, length, max_body_bytes=size)
    await server.start()
    hostile = []
    for _ in range(8):
        hostile.append(await connected(server, request(body=bytes(size))[: size * 3 // 4]))
        while len(server._connections) and sum(each._received for each in server._connections) % size != size * 3 // 4:
            await asyncio.sleep(0.005)
    assert sum(each.buffer_bytes for each in server._connections) < 2 * size
    caller = await connected(server, request(body=bytes(size)))
    assert (await caller.response())[::2] == (200, size)
    for each in (*hostile, caller):
        each.writer.transport.abort()
    await server.stop()


async def test_a_client_that_waits_for_no_response_leaves_others_their_turn():
    handled = []

    def handle(_method, path, _body):
        handled.append(path)
        return Response(HTTPStatus.OK, b"0")

    server = ExtenderServer("127.0.0.1", 0, handle, max_body_bytes=LIMIT)
    await server.start()
    clients = [Client(*await asyncio.open_connection("127.0.0.1", server.port)) for _ in range(2)]
    await clients[0].send(request("/greedy", body=b"") * 2000)
    await clients[1].send(request("/modest", body=b""))
    for client, count in ((clients[1], 1), (clients[0], 2000)):
        for _ in range(count):
            assert (await client.response())[0] == 200
        client.writer.close()
    assert handled.index("/modest") < 1000
    assert len(handled) == 2001
    await server.stop()
