"""The watches of the extender, against a scripted apiserver."""

import asyncio
import contextlib
import time

from scheduler_plugin.state import informer
from scheduler_plugin.state.waiting_pods import NOT_BOUND
from tests.fakes import apiserver
from tests.scheduler_plugin import factories
from tests.scheduler_plugin.app.test_extender_app import NODE_METRICS, NODES, PODS, bound, metric, node

EXPIRED = apiserver.status(410, "Expired")


async def test_after_etcd_was_restored_the_older_state_replaces_the_known_one():
    parts, watches = factories.parts(), informer.new_watches()
    cluster = parts.cluster
    lists = {
        NODES: ([node("n1"), node("n2")], [node("n1")]),
        PODS: ([bound("old", "n1"), bound("new", "n1")], [bound("old", "n1")]),
        NODE_METRICS: ([metric("n1", "3"), metric("n2", "1")], [metric("n1", "1")]),
    }
    async with apiserver.running() as server:
        for path, (later, before) in lists.items():
            selector = informer.RUNNING_SOMEWHERE if path == PODS else ""
            server.on("GET", path, apiserver.page("900000", *later), apiserver.page("40", *before), selector=selector)
            server.on("WATCH", path, EXPIRED, apiserver.Stream(apiserver.HANG), selector=selector)
        server.on("GET", PODS, apiserver.page("40"), selector=NOT_BOUND)
        server.on("WATCH", PODS, apiserver.Stream(apiserver.HANG), selector=NOT_BOUND)
        async with server.session() as api:
            following = asyncio.create_task(informer.Informer(api, cluster, parts.waiting, watches, time.time).run())
            await server.until(lambda: all(len(server.asked("WATCH", path)) > 1 + (path == PODS) for path in lists))
            following.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await following
        resumed = [
            [
                request.query["resourceVersion"]
                for request in server.asked("WATCH", path)
                if request.query.get("fieldSelector") != NOT_BOUND
            ]
            for path in lists
        ]
    assert resumed == [["900000", "40"]] * 3
    assert list(cluster.entries) == ["n1"]
    load = cluster.entries["n1"].load
    assert len(load.pods) == 1
    assert load.plain()[0] == 1000 + 850, "of the older report, and the estimate of the one pod"
