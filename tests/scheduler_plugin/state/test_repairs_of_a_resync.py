"""What a resync repairs, what it leaves to the watch, and how it shares the event loop."""

import asyncio

import msgspec
import pytest

from api_types.kubernetes import pods
from scheduler_plugin.state import informer, pod_info, resync
from tests.fakes import apiserver
from tests.scheduler_plugin import factories
from tests.scheduler_plugin.factories import NOW
from tests.scheduler_plugin.state.test_resync import NODE_METRICS, NODES, NOT_FOUND, NOTHING, PODS, bound, report, wire

POD_URL = "/api/v1/namespaces/default/pods/"


def of(document, type_=pods.Pod):
    return msgspec.json.decode(msgspec.json.encode(document), type=type_)


class Scene:
    """A server whose lists have the objects of the state, and a resync of it."""

    def __init__(self, server, api):
        self.server = server
        self.cluster = factories.parts().cluster
        self.listed = {NODES: [], PODS: [], NODE_METRICS: []}
        self.pauses = []
        """Functions to call with the next pauses."""
        self.slept = []
        self.subject = resync.Resync(api, self.cluster, resync.no_drift(), lambda: NOW, sleep=self._sleep)

    async def _sleep(self, seconds):
        self.slept.append(seconds)
        if self.pauses:
            self.pauses.pop(0)()

    def add(self, path, document):
        """Add an object to the list and to the state."""
        self.listed[path].append(document)
        if path == NODES:
            self.cluster.node_changed(of(document, pods.Node))
        elif path == PODS:
            self.cluster.pod_changed(of(document), NOW)
        else:
            self.cluster.metric_changed(of(document, resync.NodeMetric))

    async def run(self):
        for path, documents in self.listed.items():
            self.server.on("GET", path, apiserver.page("5", *documents))
        before = dict(self.subject.drift)
        await self.subject.run()
        return {kind: count - before[kind] for kind, count in self.subject.drift.items()}

    def reads(self, path):
        return len(self.server.asked("GET", path))


@pytest.fixture
async def scene():
    async with apiserver.running() as server, server.session() as api:
        made = Scene(server, api)
        made.add(NODES, wire(factories.node("n1")))
        made.add(NODE_METRICS, wire(report()))
        made.add(PODS, bound())
        yield made


async def test_equal_objects_need_no_pause_and_no_read_of_their_own(scene):
    assert await scene.run() == NOTHING
    assert await scene.run() == NOTHING
    assert scene.slept == []
    assert len(scene.server.requests) == 6
    assert scene.subject.completed == 2


async def test_a_node_with_another_allocatable_is_replaced_after_three_reads(scene):
    scene.cluster.node_changed(factories.node("n1", cpu="7"))
    scene.server.on("GET", f"{NODES}/n1", apiserver.Answer(scene.listed[NODES][0]))
    assert await scene.run() == {**NOTHING, "node": 1}
    assert scene.cluster.entries["n1"].allocatable["cpu"] == 100_000
    assert scene.slept == [resync.PAUSE_SECONDS] * 3
    assert scene.reads(f"{NODES}/n1") == 3


async def test_an_object_that_agrees_is_read_no_more(scene):
    scene.cluster.node_changed(factories.node("n1", cpu="7"))
    scene.server.on("GET", f"{NODES}/n1", apiserver.Answer(wire(factories.node("n1", cpu="7"))))
    assert await scene.run() == NOTHING
    assert (scene.slept, scene.reads(f"{NODES}/n1")) == ([resync.PAUSE_SECONDS], 1)


async def test_an_object_that_the_watch_brings_between_two_reads_is_no_drift(scene):
    scene.cluster.node_changed(factories.node("n1", cpu="7"))
    scene.server.on("GET", f"{NODES}/n1", apiserver.Answer(scene.listed[NODES][0]))
    scene.pauses = [lambda: None, lambda: None, lambda: scene.cluster.node_changed(factories.node("n1"))]
    assert await scene.run() == NOTHING
    assert scene.reads(f"{NODES}/n1") == 3


async def test_a_node_and_a_report_whose_deletion_the_watch_brings_are_no_drift_beside_a_pod_that_stays(scene):
    scene.add(PODS, bound("left", "ghost"))
    scene.cluster.node_changed(factories.node("ghost"))
    scene.cluster.metric_changed(report(name="ghost"))
    for path in (NODES, NODE_METRICS):
        scene.server.on("GET", f"{path}/ghost", NOT_FOUND)
    scene.pauses = [lambda: scene.cluster.node_deleted("ghost"), lambda: scene.cluster.metric_deleted("ghost")]
    assert await scene.run() == NOTHING
    assert list(scene.cluster.entries) == ["n1", "ghost"]


async def test_the_objects_on_every_page_of_a_list_are_compared(scene):
    scene.add(NODES, wire(factories.node("n2")))
    first, second = scene.listed.pop(NODES)
    third = wire(factories.node("n3"))
    pages = apiserver.page("5", first, more="next"), apiserver.page("5", second)
    more = apiserver.page("6", first, more="next"), apiserver.page("6", second, third)
    scene.server.on("GET", NODES, *pages, *more)
    assert await scene.run() == NOTHING
    assert scene.slept == []
    scene.server.on("GET", f"{NODES}/n3", apiserver.Answer(third))
    assert await scene.run() == {**NOTHING, "node": 1}
    assert set(scene.cluster.vectors.rows) == {"n1", "n2", "n3"}


@pytest.mark.parametrize("changed", [{"node": "n2"}, {"priority": 5}, {"initialized": -3}])
async def test_a_pod_that_differs_in_what_counts_is_replaced(scene, changed):
    fields = {"node": "n1", "requests": {"cpu": "4"}, "phase": "Running", "scheduled": -10, **changed}
    scene.cluster.pod_changed(factories.pod("web-1", **fields), NOW)
    scene.server.on("GET", f"{POD_URL}web-1", apiserver.Answer(bound()))
    assert await scene.run() == {**NOTHING, "pod": 1}
    node, record = scene.cluster.find_pod(of(bound()))
    assert (node, record.observed, record.signature) == ("n1", True, pod_info.signature(of(bound())))


async def test_a_pod_that_is_only_assumed_becomes_a_bound_one(scene):
    scene.cluster.assume_pod(factories.pod("late"), "n1", NOW)
    scene.listed[PODS].append(bound("late"))
    scene.server.on("GET", f"{POD_URL}late", apiserver.Answer(bound("late")))
    assert await scene.run() == {**NOTHING, "pod": 1}
    assert scene.cluster.shows_pod("default", "late")


async def test_a_listed_placeholder_is_no_difference_unless_a_pod_of_its_name_counts(scene):
    placeholder = bound("held", annotations={"scheduling.koordinator.sh/reserve-pod": "true"})
    scene.add(PODS, placeholder)
    assert await scene.run() == NOTHING
    assert scene.slept == []
    scene.cluster.pod_changed(of(bound("held", uid="before")), NOW)
    scene.server.on("GET", f"{POD_URL}held", apiserver.Answer(placeholder))
    assert await scene.run() == {**NOTHING, "pod": 1}
    assert not scene.cluster.shows_pod("default", "held")


async def test_of_too_many_differences_the_first_are_repaired(scene, monkeypatch):
    monkeypatch.setattr(resync, "_MOST_SUSPECTS", 2)
    for name in ("a", "b", "c"):
        scene.listed[PODS].append(bound(name))
        scene.server.on("GET", f"{POD_URL}{name}", apiserver.Answer(bound(name)))
    assert await scene.run() == {**NOTHING, "pod": 2}
    assert await scene.run() == {**NOTHING, "pod": 1}


async def test_wrong_sums_are_repaired_on_every_node_and_written_into_its_row(scene):
    for name in ("n2", "n3"):
        scene.add(NODES, wire(factories.node(name)))
    for name in ("n1", "n3"):
        scene.cluster.entries[name].load.node_estimated[0] += 1
    before = scene.cluster.vectors.version
    assert await scene.run() == {**NOTHING, "sums": 2}
    assert scene.cluster.vectors.version == before + 2
    assert await scene.run() == NOTHING


async def test_other_tasks_run_while_the_cached_objects_are_compared(scene, monkeypatch):
    turns, seen = [0], []

    async def count():
        while True:
            turns[0] += 1
            await asyncio.sleep(0)

    def cached(_cluster):
        for _ in range(3 * informer.PAGE_SIZE):
            seen.append(turns[0])
            yield "", "n1"

    monkeypatch.setattr(resync, "_KINDS", (resync._KINDS[0]._replace(cached=cached),))
    async with asyncio.TaskGroup() as group:
        counting = group.create_task(count())
        await scene.run()
        counting.cancel()
    page = informer.PAGE_SIZE
    assert seen[1] < seen[page + 1] < seen[2 * page + 1]


async def test_neither_the_objects_nor_the_nodes_are_waited_for_one_by_one(scene, monkeypatch):
    """A pause of a second for each of 40 objects takes longer than the test may."""
    monkeypatch.setattr(informer, "PAGE_SIZE", 1)
    for index in range(40):
        scene.add(NODES, wire(factories.node(f"more-{index}")))
    async with asyncio.timeout(25):
        assert await scene.run() == NOTHING
