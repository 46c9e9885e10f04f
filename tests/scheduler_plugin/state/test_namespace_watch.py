"""The watch of Namespaces, against a scripted apiserver."""

import asyncio
import contextlib

from apiserver_client import session
from apiserver_client.watching import WatchState
from scheduler_plugin.state.mid_quotas import MidQuotas
from scheduler_plugin.state.mid_watches import NamespaceWatch
from tests.fakes import cluster


def namespace(name, quota=None):
    return {"metadata": {"name": name, "annotations": {} if quota is None else {"koordinator.sh/mid-quota": quota}}}


async def until(condition):
    async with asyncio.timeout(20):
        while not condition():
            await asyncio.sleep(0.01)


@contextlib.asynccontextmanager
async def following(server, quotas):
    async with session.connect(server.connection(), user_agent="test/1") as api:
        task = asyncio.create_task(NamespaceWatch(api, quotas, WatchState()).run())
        yield
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def test_follows_the_annotation_of_namespaces_that_come_change_and_go():
    quotas = MidQuotas()
    async with cluster.running() as server:
        server.add("namespaces", namespace("shop", '{"cpu": "20"}'))
        async with following(server, quotas):
            await until(lambda: quotas.namespace_use("shop").quota.cpu_millis == 20_000 and quotas.is_known)
            server.add("namespaces", namespace("lab", "{"))
            await until(lambda: quotas.namespace_use("lab").is_malformed)
            server.patch("namespaces", "shop", {"metadata": {"annotations": {"koordinator.sh/mid-quota": None}}})
            await until(lambda: quotas.namespace_use("shop").quota.cpu_millis is None)
            server.remove("namespaces", "lab")
            await until(lambda: not quotas.namespace_use("lab").is_malformed)


async def test_without_the_permission_the_quotas_stay_unknown():
    quotas = MidQuotas()
    async with cluster.running() as server:
        server.refuse["GET", "namespaces"] = cluster.Refusal(403, "Forbidden", "namespaces")
        async with following(server, quotas):
            await until(lambda: not quotas.is_known)
            await until(lambda: any("/namespaces" in each.path for each in server.requests))
    assert not quotas.is_known


async def test_only_the_metadata_of_namespaces_is_asked_for():
    quotas = MidQuotas()
    async with cluster.running() as server:
        server.add("namespaces", namespace("shop", '{"cpu": "20"}'))
        async with following(server, quotas):
            await until(lambda: quotas.namespace_use("shop").quota.cpu_millis == 20_000)
        asked = [each for each in server.requests if "/namespaces" in each.path]
    assert asked
    assert all("PartialObjectMetadata" in each.headers["accept"] for each in asked)
