"""The watches of a standalone load watcher, against a scripted apiserver with faults."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Sequence
from typing import Any

import msgspec
import pytest

from apiserver_client import resources
from scheduler_plugin.load_watcher.app import NodeInformer
from scheduler_plugin.load_watcher.providers import provider
from tests.fakes import apiserver, watch_faults
from tests.scheduler_plugin import factories

NODES, NODE_METRICS = resources.NODES.path(), resources.NODE_METRICS.path()


def wire(item: object) -> dict[str, Any]:
    """Return an object of a factory as the apiserver sends it."""
    return dict(json.loads(msgspec.json.encode(item)))


def node(name: str) -> dict[str, Any]:
    return wire(factories.node(name, cpu="10"))


def metric(name: str, cpu: str) -> dict[str, Any]:
    return wire(factories.metric(name, usage={"cpu": cpu, "memory": "1Gi"}))


LATER = {NODES: [node("n1"), node("n3")], NODE_METRICS: [metric("n1", "3")]}
EARLIER = {NODES: [node("n1"), node("n2")], NODE_METRICS: [metric("n1", "1"), metric("n2", "2")]}
CHANGES = {
    NODES: (apiserver.event("DELETED", node("n2")), apiserver.event("ADDED", node("n3"))),
    NODE_METRICS: (apiserver.event("DELETED", metric("n2", "2")), apiserver.event("MODIFIED", metric("n1", "3"))),
}


async def followed(known: NodeInformer) -> None:
    """Wait until the informer has the later state, and nothing of the earlier one."""
    async with asyncio.timeout(20):
        while (set(known.nodes), reported(known)) != ({"n1", "n3"}, {"n1": 3000}):
            await asyncio.sleep(0.01)


def reported(known: NodeInformer) -> dict[str, int]:
    return {name: (report.node_usage or (0,))[0] for name, report in known.reports.items()}


@contextlib.asynccontextmanager
async def informing(server: apiserver.ScriptedServer) -> AsyncIterator[NodeInformer]:
    """Run an informer until its first lists are complete."""
    async with server.session() as api:
        known = NodeInformer(api, provider.DATA_CENTER_LABEL, provider.POOL_LABEL)
        running = asyncio.create_task(known.run(with_reports=True))
        await known.first_lists()
        yield known
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running


def versions(server: apiserver.ScriptedServer, path: str) -> list[str]:
    """Return the versions from which a watch was asked for."""
    return [request.query["resourceVersion"] for request in server.asked("WATCH", path)]


@pytest.mark.parametrize("faults", watch_faults.RESUMED.values(), ids=watch_faults.RESUMED)
@pytest.mark.usefixtures("short_silence")
async def test_a_watch_that_fails_is_resumed_and_every_change_since_is_followed(faults: Sequence[Any]) -> None:
    async with apiserver.running() as server:
        for path, changes in CHANGES.items():
            server.on("GET", path, apiserver.page("900", *EARLIER[path]))
            server.on("WATCH", path, *faults, apiserver.Stream(*changes, apiserver.HANG))
        async with informing(server) as known:
            assert known.nodes.keys() == {"n1", "n2"}, "a fault takes nothing away"
            await followed(known)
        assert [versions(server, path) for path in CHANGES] == [["900"] * (len(faults) + 1)] * 2


@pytest.mark.parametrize("version", ["950", "40"], ids=["compacted", "restored"])
async def test_after_an_expired_version_or_a_restore_of_etcd_a_new_list_replaces_what_is_known(version: str) -> None:
    async with apiserver.running() as server:
        for path, later in LATER.items():
            server.on("GET", path, apiserver.page("900", *EARLIER[path]), apiserver.page(version, *later))
            server.on("WATCH", path, apiserver.status(410, "Expired"), apiserver.Stream(apiserver.HANG))
        async with informing(server) as known:
            await followed(known)
        assert [versions(server, path) for path in LATER] == [["900", version]] * 2


async def test_reports_return_with_their_crd_and_nodes_are_followed_meanwhile() -> None:
    async with apiserver.running() as server:
        missing = apiserver.NOT_SERVED
        reports = apiserver.page("900", *EARLIER[NODE_METRICS])
        server.on("GET", NODE_METRICS, reports, missing, apiserver.page("950", *LATER[NODE_METRICS]))
        server.on("WATCH", NODE_METRICS, missing, apiserver.Stream(apiserver.HANG))
        server.on("GET", NODES, apiserver.page("900", *EARLIER[NODES]))
        server.on("WATCH", NODES, apiserver.Stream(*CHANGES[NODES], apiserver.HANG))
        async with informing(server) as known:
            await followed(known)
        assert len(server.asked("GET", NODE_METRICS)) == 3
