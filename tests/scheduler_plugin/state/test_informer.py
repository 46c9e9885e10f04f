"""The watches of the extender, against a scripted apiserver."""

import asyncio
import contextlib
import time

import pytest

from apiserver_client import errors, watching
from scheduler_plugin.state import informer
from tests.fakes import apiserver, watch_faults
from tests.scheduler_plugin import factories
from tests.scheduler_plugin.app.test_extender_app import NODE_METRICS, NODES, PODS, bound, metric, node

EXPIRED = apiserver.status(410, "Expired")


def new_watches():
    return {name: watching.WatchState() for name in ("nodes", "pods", "node_metrics")}


@contextlib.asynccontextmanager
async def following(server, parts):
    async with server.session() as api:
        watches = new_watches()

        def shown(pod):
            parts.cluster.pod_changed(pod, time.time())

        running = asyncio.create_task(informer.Informer(api, parts.cluster, watches, shown).run())
        yield
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running


@pytest.mark.parametrize("faults", watch_faults.RESUMED.values(), ids=watch_faults.RESUMED)
@pytest.mark.usefixtures("short_silence")
async def test_watches_that_fail_are_resumed_and_every_change_since_is_followed(faults):
    parts = factories.parts()
    entries = parts.cluster.entries
    before = {NODES: [node("n1"), node("n2")], PODS: [bound("old", "n1")], NODE_METRICS: [metric("n1", "3")]}
    changes = {
        NODES: [apiserver.event("DELETED", node("n2")), apiserver.event("ADDED", node("n3"))],
        PODS: [apiserver.event("ADDED", bound("new", "n3")), apiserver.event("DELETED", bound("old", "n1"))],
        NODE_METRICS: [apiserver.event("MODIFIED", metric("n1", "1"))],
    }

    def seen():
        return {name: (list(entry.load.pods), entry.load.plain()[0]) for name, entry in entries.items()}

    async with apiserver.running() as server:
        for path, found in before.items():
            selector = informer.RUNNING_SOMEWHERE if path == PODS else ""
            server.on("GET", path, apiserver.page("900", *found), selector=selector)
            events = apiserver.Stream(*changes[path], apiserver.HANG)
            server.on("WATCH", path, *faults, events, selector=selector)
        async with following(server, parts), asyncio.timeout(20):
            while seen() != {"n1": ([], 1000), "n3": (["default/new"], 850)}:
                await asyncio.sleep(0.01)
        assert all(len(server.asked("GET", path)) == 1 for path in before)


@pytest.mark.parametrize("version", ["950000", "40"], ids=["compacted", "restored"])
async def test_after_an_expired_version_or_a_restore_of_etcd_a_new_list_replaces_what_is_known(version):
    parts = factories.parts()
    cluster = parts.cluster
    lists = {
        NODES: ([node("n1"), node("n2")], [node("n1")]),
        PODS: ([bound("old", "n1"), bound("new", "n1")], [bound("old", "n1")]),
        NODE_METRICS: ([metric("n1", "3"), metric("n2", "1")], [metric("n1", "1")]),
    }
    async with apiserver.running() as server:
        for path, (before, now) in lists.items():
            selector = informer.RUNNING_SOMEWHERE if path == PODS else ""
            server.on("GET", path, apiserver.page("900000", *before), apiserver.page(version, *now), selector=selector)
            server.on("WATCH", path, EXPIRED, apiserver.Stream(apiserver.HANG), selector=selector)
        async with following(server, parts):
            await server.until(lambda: all(len(server.asked("WATCH", path)) > 1 for path in lists))
        resumed = [[request.query["resourceVersion"] for request in server.asked("WATCH", path)] for path in lists]
    assert resumed == [["900000", version]] * 3
    assert list(cluster.entries) == ["n1"]
    load = cluster.entries["n1"].load
    assert len(load.pods) == 1
    assert load.plain()[0] == 1000 + 850, "of the report of the new list, and the estimate of the one pod"


KEYS = [watching.Key("default", f"p{index}") for index in range(40)]


def test_a_watch_is_named_with_its_error_until_its_first_list_is_complete():
    watches = new_watches()
    assert informer.unsynced(watches) == ["nodes", "pods", "node_metrics"]
    watches["nodes"].synced = True
    watches["pods"].last_error = errors.Unreachable("GET /api/v1/pods: refused")
    assert informer.unsynced(watches) == ["pods (GET /api/v1/pods: refused)", "node_metrics"]
    assert informer.unsynced(watches, ["pods"]) == ["node_metrics"]
    watches["pods"].synced = watches["node_metrics"].synced = True
    assert informer.unsynced(watches) == []


class Applied:
    """The calls that a stream of events makes, each with the number of turns of the event loop before it."""

    def __init__(self, *events):
        self.events = events
        self.calls = []
        self.turns = 0
        self.broken = None
        self.slices = 3

    async def stream(self):
        for event in self.events:
            yield event

    def note(self, *call):
        self.calls.append((*call, self.turns))
        if call[1] == self.broken:
            raise ValueError("broken")

    def keep(self, keys):
        for index in range(self.slices):
            self.note("kept", (index, sorted(keys)))
            yield

    async def count(self):
        while True:
            self.turns += 1
            await asyncio.sleep(0)

    async def run(self):
        counting = asyncio.create_task(self.count())
        async with asyncio.timeout(25):  # a second for each event or slice would be too long
            await informer._follow(
                self.stream(),
                changed=lambda item: self.note("changed", item),
                deleted=lambda key, item: self.note("deleted", key, item),
                keep=self.keep,
            )
        counting.cancel()
        return [call[:-1] for call in self.calls]

    def steps(self):
        return [call[-1] for call in self.calls]


async def test_each_event_has_a_turn_of_its_own():
    applied = Applied(*(watching.Changed(key, key.name) for key in KEYS))
    assert await applied.run() == [("changed", key.name) for key in KEYS]
    assert len(set(applied.steps())) == len(KEYS)


async def test_each_slice_after_a_list_has_a_turn_of_its_own():
    applied = Applied(watching.Synced(frozenset({"b", "a"}), "5"))
    applied.slices = 40
    assert await applied.run() == [("kept", (index, ["a", "b"])) for index in range(40)]
    assert len(set(applied.steps())) == 40


async def test_events_are_applied_by_their_kind_and_one_that_fails_or_is_unreadable_stops_none(caplog):
    key = KEYS[0]
    applied = Applied(
        watching.Changed(key, "broken"),
        watching.Unreadable(key, "nonsense"),
        watching.Deleted(key, "last"),
        watching.Deleted(key, None),
        watching.Changed(key, "next"),
    )
    applied.broken = "broken"
    assert await applied.run() == [
        ("changed", "broken"),
        ("deleted", key, "last"),
        ("deleted", key, None),
        ("changed", "next"),
    ]
    assert [each.levelname for each in caplog.records] == ["ERROR", "WARNING"]
    assert "nonsense" in caplog.text
