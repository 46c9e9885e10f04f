"""What is kept and shown of the cluster and of Prometheus: points, cells, and the first of several errors."""

import asyncio
import contextlib
import json
import time

import pytest

from apiserver_client import connection, session
from component_base import clock
from console.cluster import poller as pollers
from console.cluster import reading
from console.cluster.poller import Poller
from console.history.prometheus import CpuHistory
from tests.fakes import apiserver, connections
from tests.fleet import cluster

pytestmark = pytest.mark.slow


async def test_a_snapshot_becomes_a_point_of_the_history():
    async with apiserver.running() as server:
        server.on("GET", "/api/v1/nodes", apiserver.Answer(cluster.listing(cluster.node())))
        metrics = "/apis/slo.koordinator.sh/v1alpha1/nodemetrics"
        server.on("GET", metrics, apiserver.Answer(cluster.listing(cluster.metric())))
        poller = Poller(connection.Connection(server=server.url, origin="a test"), "koordinator-system")
        poller.start()
        try:
            assert await asyncio.to_thread(poller.first.wait, 10)
            assert len(poller.history.node_points("worker-1", "cpu")) == 1
        finally:
            await asyncio.to_thread(poller.stop)


async def test_one_request_makes_one_more_snapshot_and_not_one_after_the_other(monkeypatch):
    monkeypatch.setattr(pollers, "_PAUSE_FACTOR", 0.0)
    async with apiserver.running() as server:
        server.on("GET", "/api/v1/nodes", apiserver.Answer(cluster.listing(cluster.node())))
        server.on("GET", "/api/v1/pods", apiserver.Answer(cluster.listing()))
        to = connection.Connection(server=server.url, origin="a test")
        poller = Poller(to, "koordinator-system", interval_seconds=0.0)
        poller.start()
        try:
            assert await asyncio.to_thread(poller.first.wait, 10)
            poller.newest()
            await server.until(lambda: len(server.asked("GET", "/api/v1/nodes")) >= 2)
            for number in range(30):  # time for more snapshots
                await poller.detail((str(number),), lambda api: reading.pending(api, clock.utc_now()))
            assert len(server.asked("GET", "/api/v1/nodes")) == 2
        finally:
            await asyncio.to_thread(poller.stop)


async def test_of_unreadable_pods_the_first_one_is_named():
    bad = [{"metadata": {"name": name, "namespace": "shop"}, "spec": 5} for name in ("one", "two")]
    async with apiserver.running() as server:
        server.on("GET", "/api/v1/pods", apiserver.Answer(cluster.listing(*bad)))
        to = connection.Connection(server=server.url, origin="a test")
        async with session.connect(to, user_agent="a test") as api:
            found = await reading.pending(api, clock.utc_now())
    (unread,) = found.unread
    assert unread.what == "2 pods"
    assert "one" in unread.why
    assert "two" not in unread.why


@contextlib.asynccontextmanager
async def prometheus(*values):
    """Serve one sample of each series of values to the first query, and nothing to the others."""
    asked = []

    async def serve(reader, writer):
        with contextlib.closing(writer):
            asked.append(await reader.readuntil(b"\r\n\r\n"))
            await reader.read(65_536)  # the form
            at = int(time.time()) // 900 * 900
            series = [{"metric": {}, "values": [[at - 1_800, value]]} for value in values] if len(asked) == 1 else []
            body = json.dumps({"status": "success", "data": {"result": series}}).encode()
            writer.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
            await writer.drain()

    async with connections.served(serve) as port:
        yield f"http://127.0.0.1:{port}"


async def test_a_point_with_one_of_the_series_is_kept():
    async with prometheus("8") as url:
        found = await CpuHistory(url).cpu()
    (point,) = found["prometheus_points"]
    assert point.values == (8.0, None, None, None, None)
