"""The watches of Nodes and NodeMetrics, against a scripted apiserver."""

import asyncio
import contextlib
import json

import pytest

from api_types.kubernetes import pods
from apiserver_client import backoff, resources
from manager.cache import object_watches
from manager.cache.object_watches import NodeMetricWatch, ObjectWatch
from manager.cache.store import Availability, ClusterStore
from tests.fakes import apiserver, watch_faults
from tests.fakes.apiserver import HANG, After, Stream

PATH = resources.NODE_METRICS.path()
GONE = apiserver.event("ERROR", {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"})
FORBIDDEN = apiserver.status(403, "Forbidden", "no")
NOT_SERVED = apiserver.status(404, "NotFound", "the server could not find the requested resource")


def metric(name, version, *, uid="", **more):
    return {"metadata": {"name": name, "resourceVersion": str(version), "uid": uid or f"of-{name}"}, **more}


def reported(name, version, time):
    return metric(name, version, status={"updateTime": time})


class Run:
    """A watch over a script; what it tells the manager. Of NodeMetrics, or with `nodes` of Nodes."""

    def __init__(self, server, api, *, nodes=False):
        self.server = server
        self.cache = ClusterStore()
        self.cache.node_metrics_are = Availability.UNREAD
        self.cache.nodes.update(self.cache.nodes.decode(metric("bare", 1)))
        self.requeued, self.problems, self.seen = [], [], 0
        shared = {"add": self.requeued.append, "on_event": self.see, "show_problem": self.show}
        self.plural = "nodes" if nodes else "nodemetrics"
        self.store = self.cache.nodes if nodes else self.cache.node_metrics
        self.subject = (
            ObjectWatch(api, resources.NODES, store=self.cache.nodes, decode=pods.Node, **shared)
            if nodes
            else NodeMetricWatch(api, self.cache, **shared)
        )

    def see(self, plural):
        assert plural == self.plural
        self.seen += 1

    def show(self, part, problem):
        assert part == self.plural
        self.problems.append(problem)

    @property
    def names(self):
        return sorted(self.store.names())

    async def until(self, condition):
        async with asyncio.timeout(10):
            while not condition():
                await asyncio.sleep(0.001)


@pytest.fixture(autouse=True)
def _quick_retries(monkeypatch):
    monkeypatch.setattr(object_watches, "RETRIES", backoff.Backoff(0.01, 0.01))


@contextlib.asynccontextmanager
async def watching(lists=(), watches=(), *, nodes=False, **connection):
    """Watch with these answers to lists and watches; a quiet watch follows the last one."""
    path = resources.NODES.path() if nodes else PATH
    async with apiserver.running() as server:
        if lists:
            server.on("GET", path, *lists)
        server.on("WATCH", path, *watches, Stream(HANG))
        async with server.session(**connection) as api:
            run = Run(server, api, nodes=nodes)
            run.task = asyncio.create_task(run.subject.follow())
            try:
                yield run
            finally:
                run.task.cancel()
                await asyncio.gather(run.task, return_exceptions=True)


async def test_a_list_fills_the_store_and_requeues_every_node_also_those_without_a_node_metric():
    async with watching([apiserver.page("9", metric("n1", 5), metric("n2", 6))]) as run:
        await run.until(lambda: run.cache.node_metrics_are is Availability.LISTED)
        assert run.names == ["n1", "n2"]
        assert set(run.requeued) == {"n1", "n2", "bare"}
        assert run.subject.answered.is_set()
        assert (run.seen, set(run.problems)) == (2, {None})


async def test_changes_arrive_in_order_also_of_an_object_that_is_created_again_under_its_name():
    events = [
        apiserver.event("MODIFIED", reported("n1", 10, "2026-11-21T11:59:00Z")),
        apiserver.event("DELETED", metric("n1", 11)),
        apiserver.event("ADDED", metric("n1", 12, uid="another")),
        apiserver.event("ADDED", metric("n2", 13)),
        apiserver.event("DELETED", metric("n2", 14)),
    ]
    async with watching([apiserver.page("9", metric("n1", 5))], [Stream(*events, HANG)]) as run:
        await run.until(lambda: run.seen == 6)
        assert run.names == ["n1"]
        assert run.cache.node_metrics.get("n1").metadata.uid == "another"
        assert run.requeued[-5:] == ["n1", "n1", "n1", "n2", "n2"]


async def test_the_deletion_of_an_earlier_object_removes_no_successor_that_the_manager_created():
    resume = asyncio.Event()
    later = Stream(After(resume), apiserver.event("DELETED", metric("n1", 11)), HANG)
    async with watching([apiserver.page("9", metric("n1", 5))], [later]) as run:
        await run.until(lambda: run.names)
        run.cache.node_metrics.update(run.cache.node_metrics.decode(metric("n1", 12, uid="another")))
        resume.set()
        await run.until(lambda: run.seen == 2)
        assert run.cache.node_metrics.get("n1").metadata.uid == "another"


async def test_an_object_that_was_deleted_while_the_watch_was_expired_is_dropped_and_a_later_one_stays():
    second = asyncio.Event()
    lists = [apiserver.page("9", metric("n1", 5), metric("n2", 6)), apiserver.page("20", metric("n1", 5))]
    async with watching(lists, [Stream(After(second), GONE)]) as run:
        await run.until(lambda: run.names == ["n1", "n2"])
        run.cache.node_metrics.update(run.cache.node_metrics.decode(metric("own", 21)))  # the answer to a write
        del run.requeued[:]
        second.set()
        await run.until(lambda: run.names == ["n1", "own"])
        assert set(run.requeued) == {"n1", "n2"}


@pytest.mark.parametrize("nodes", [False, True], ids=["nodemetrics", "nodes"])
@pytest.mark.parametrize("faults", watch_faults.RESUMED.values(), ids=watch_faults.RESUMED)
@pytest.mark.usefixtures("short_silence")
async def test_a_watch_that_fails_is_resumed_and_every_change_since_is_followed(faults, nodes):
    changes = Stream(apiserver.event("DELETED", metric("n1", 11)), apiserver.event("ADDED", metric("n2", 12)), HANG)
    async with watching([apiserver.page("9", metric("n1", 5))], [*faults, changes], nodes=nodes) as run:
        await run.until(lambda: "n2" in run.names)
        assert "n1" not in run.names
        assert {"n1", "n2"} <= set(run.requeued)
        assert any(run.problems)
        assert run.problems[-1] is None
        assert len(run.server.asked("GET")) == 1
        assert {each.query["resourceVersion"] for each in run.server.asked("WATCH")} == {"9"}


async def test_nodes_are_listed_only_once_every_page_is_read():
    """Nothing may be decided before: a node that is not stored does not exist."""
    rest = asyncio.Event()
    first, whole = apiserver.page("9", metric("n1", 5), more="2"), apiserver.page("9", metric("n1", 5), metric("n2", 6))
    later = Stream(After(rest), apiserver.ABORT)
    async with watching([first, later, whole], nodes=True) as run:
        await run.until(lambda: "n1" in run.names)
        assert not run.subject.listed.is_set()
        rest.set()
        async with asyncio.timeout(10):
            await run.subject.listed.wait()
        assert run.names == ["n1", "n2"]


async def test_a_list_of_an_older_version_ends_the_watch_for_a_restart():
    """Kubernetes recommends to restart what has watched before etcd was restored: any stored object may be wrong."""
    events = [apiserver.event("MODIFIED", metric("n1", 1_000)), GONE]
    lists = [apiserver.page("9", metric("n1", 5)), apiserver.page("20", metric("n1", 5)), apiserver.page("21")]
    async with watching(lists, [Stream(*events), Stream(GONE)]) as run:
        with pytest.raises(object_watches.VersionsWentBack, match="versions of nodemetrics went back"):
            await asyncio.wait_for(run.task, 10)


async def test_without_the_crd_there_are_no_node_metrics_until_it_returns():
    back = asyncio.Event()
    lists = [apiserver.page("9", metric("n1", 5)), *[NOT_SERVED] * 3, apiserver.page("30", metric("n1", 30))]
    async with watching(lists, [Stream(After(back), GONE)]) as run:
        states = []
        await run.until(lambda: run.names == ["n1"])
        run.subject.add = lambda name: states.append((run.cache.node_metrics_are, name, run.names))
        back.set()
        await run.until(lambda: len(states) == 3)
        assert states == [
            (Availability.NOT_SERVED, "n1", []), (Availability.NOT_SERVED, "n1", ["n1"]),
            (Availability.LISTED, "bare", ["n1"]),
        ]  # fmt: skip
        assert "install its CRD" in [each for each in run.problems if each][-1]
        assert run.problems[-1] is None


@pytest.mark.parametrize("refused", [FORBIDDEN, apiserver.status(503, "ServiceUnavailable"), apiserver.ABORT])
async def test_a_list_that_fails_is_reported_and_leaves_unknown_what_is_unknown(refused):
    async with watching([refused, refused, apiserver.page("9")]) as run:
        async with asyncio.timeout(10):
            await run.subject.answered.wait()
        assert run.cache.node_metrics_are is Availability.UNREAD
        assert PATH in run.problems[0]
        await run.until(lambda: run.cache.node_metrics_are is Availability.LISTED)
        assert run.problems[-1] is None


async def test_a_watch_that_is_refused_is_reported_and_takes_away_nothing_that_is_known():
    async with watching([apiserver.page("9", metric("n1", 5))], [FORBIDDEN, FORBIDDEN]) as run:
        await run.until(lambda: len(run.server.asked("WATCH")) == 3)
        await run.until(lambda: run.problems[-1] is None)
        reported = next(each for each in run.problems if each)
        assert "grant it by RBAC (verbs: [watch], resources: [nodemetrics]" in reported
        assert run.names == ["n1"]
        assert run.cache.node_metrics_are is Availability.LISTED
        assert len(run.server.asked("GET")) == 1


async def test_an_object_that_cannot_be_decoded_delays_no_other_and_stays_as_it_was(caplog):
    bad = metric("n1", 11, status={"updateTime": 5})
    events = [apiserver.event("MODIFIED", bad), apiserver.event("ADDED", metric("n2", 12))]
    async with watching([apiserver.page("9", metric("n1", 5))], [Stream(*events, HANG)]) as run:
        await run.until(lambda: run.names == ["n1", "n2"])
        assert run.cache.node_metrics.get("n1").metadata.resource_version == "5"
        assert "cannot decode NodeMetric n1: " in caplog.text
        assert "updateTime" in caplog.text


@pytest.mark.parametrize("how", ["listed", "changed"])
async def test_other_tasks_run_while_many_objects_arrive_at_once(how):
    """The bytes of all objects are there: without a pause between them they would be one turn of the loop."""
    objects = [metric(f"n{number}", 10 + number) for number in range(1_000)]
    turns, counts = 0, []
    ready = asyncio.Event()
    if how == "listed":
        answers = {"lists": [apiserver.page("5000", *objects)]}
    else:
        lines = b"".join(json.dumps(apiserver.event("ADDED", each)).encode() + b"\n" for each in objects)
        answers = {"lists": [apiserver.page("9")], "watches": [Stream(After(ready), lines, HANG)]}
    async with watching(**answers) as run:
        run.subject.add = lambda _: counts.append(turns)

        async def count():
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        counting = asyncio.create_task(count())
        ready.set()
        await run.until(lambda: len(counts) >= 1_000)
        counting.cancel()
        together = max(counts.count(turn) for turn in set(counts))
        assert together <= 8


async def test_a_token_that_is_replaced_is_used_by_the_next_watch(tmp_path):
    token = tmp_path / "token"
    token.write_text("old")
    rotate = asyncio.Event()
    unauthorized = apiserver.status(401, "Unauthorized")
    watches = [Stream(After(rotate)), unauthorized, Stream(apiserver.event("ADDED", metric("n1", 10)), HANG)]
    async with watching([apiserver.page("9")], watches, token_path=token) as run:
        await run.until(lambda: run.server.asked("WATCH"))
        token.write_text("new")
        rotate.set()
        await run.until(lambda: run.names == ["n1"])
        assert [each.headers["authorization"] for each in run.server.asked("WATCH")][-2:] == [
            "Bearer old",
            "Bearer new",
        ]
