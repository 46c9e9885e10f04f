"""The watches of a leader after a restore of etcd, where versions that they have seen come again."""

import datetime as dt

from component_base import clock
from tests.fakes import cluster
from tests.manager.test_leader import (
    _quick_retries,
    add_node,
    configure,
    leader,
    until,
)

__all__ = ["_quick_retries"]
WATCHED = {"nodes", "nodemetrics", "configmaps"}


async def test_every_watch_begins_again():
    async with cluster.running() as server:
        server.now = clock.utc_now().replace(microsecond=0) - dt.timedelta(seconds=60)
        server._version = 1_000_000
        add_node(server, "n1")
        configure(server, {"enable": True})

        def begun(first=0):
            return {each.path.rsplit("/", 1)[-1] for each in server.requests[first:] if each.method == "WATCH"}

        async with leader(server, resync_seconds=1):
            await until(lambda: begun() >= WATCHED and server.get("nodemetrics", "n1"))
            before = len(server.requests)
            server.restore(1_000)
            await until(lambda: begun(before) >= WATCHED)
