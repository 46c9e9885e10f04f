"""What is kept and shown of the cluster and of Prometheus: points, cells, and the first of several errors."""

import asyncio

import pytest

from apiserver_client import connection, session
from component_base import clock
from console.cluster import poller as pollers
from console.cluster import reading
from console.cluster.poller import Poller
from tests.fakes import apiserver
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
