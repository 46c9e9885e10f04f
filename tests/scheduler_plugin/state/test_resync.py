"""Resync of a differing state with a scripted apiserver."""

import json

import msgspec
import pytest

from apiserver_client import errors
from scheduler_plugin.state import resync
from tests.fakes import apiserver
from tests.scheduler_plugin import factories
from tests.scheduler_plugin.factories import NOW

PODS, NODES = "/api/v1/pods", "/api/v1/nodes"
NODE_METRICS = "/apis/slo.koordinator.sh/v1alpha1/nodemetrics"
NOT_FOUND = apiserver.Answer({"kind": "Status", "code": 404, "reason": "NotFound", "details": {"name": "x"}}, 404)
NOTHING = {"node": 0, "pod": 0, "node_metric": 0, "sums": 0}


def wire(item):
    return json.loads(msgspec.json.encode(item))


def bound(name="web-1", node="n1", **more):
    return factories.pod_document(name, node=node, requests={"cpu": "4"}, phase="Running", scheduled=-10, **more)


def report(cpu="10", name="n1"):
    return factories.metric(name, usage={"cpu": cpu, "memory": "1Gi"}, pods_metric=[])


@pytest.fixture
def cluster():
    cluster = factories.parts().cluster
    cluster.node_changed(factories.node("n1"))
    cluster.metric_changed(report())
    cluster.pod_changed(msgspec.convert(bound(), factories.pods.Pod), NOW)
    return cluster


@pytest.fixture
async def server():
    async with apiserver.running() as running:
        running.on("GET", NODES, apiserver.page("5", wire(factories.node("n1"))))
        running.on("GET", PODS, apiserver.page("5", bound()))
        running.on("GET", NODE_METRICS, apiserver.page("5", wire(report())))
        yield running


@pytest.fixture
async def compare(server, cluster):
    """Return a function that runs one resync and returns the drift. It calls one of `pauses` with each pause."""

    async def run(*pauses):
        waiting = list(pauses)

        async def sleep(_seconds):
            if waiting:
                waiting.pop(0)()

        drift = resync.no_drift()
        async with server.session() as api:
            await resync.Resync(api, cluster, drift, lambda: NOW, sleep=sleep).run()
        return drift

    return run


def plain_cpu(cluster, node="n1"):
    return cluster.entries[node].load.plain()[0]


async def test_an_equal_state_has_no_drift_and_stays_the_same(compare, cluster):
    before = dict(cluster.entries)
    assert await compare() == NOTHING
    assert cluster.entries == before
    assert plain_cpu(cluster) == 10_000 + 3_400


async def test_missing_objects_are_counted_by_kind_and_added(compare, cluster, server):
    cluster.node_deleted("n1")
    cluster.metric_deleted("n1")
    cluster.pod_deleted("default", "web-1", "uid-web-1")
    server.on("GET", f"{NODES}/n1", apiserver.Answer(wire(factories.node("n1"))))
    server.on("GET", f"{NODE_METRICS}/n1", apiserver.Answer(wire(report())))
    server.on("GET", "/api/v1/namespaces/default/pods/web-1", apiserver.Answer(bound()))
    assert await compare() == {**NOTHING, "node": 1, "pod": 1, "node_metric": 1}
    assert plain_cpu(cluster) == 10_000 + 3_400


async def test_extra_objects_are_counted_by_kind_and_dropped(compare, cluster, server):
    cluster.node_changed(factories.node("ghost"))
    cluster.metric_changed(report(name="ghost"))
    cluster.pod_changed(msgspec.convert(bound("ghost"), factories.pods.Pod), NOW)
    for path in (f"{NODES}/ghost", f"{NODE_METRICS}/ghost", "/api/v1/namespaces/default/pods/ghost"):
        server.on("GET", path, NOT_FOUND)
    assert await compare() == {**NOTHING, "node": 1, "pod": 1, "node_metric": 1}
    assert list(cluster.entries) == ["n1"]
    assert plain_cpu(cluster) == 10_000 + 3_400


async def test_a_pod_that_is_gone_is_dropped_also_where_the_next_one_of_its_name_waits(compare, cluster, server):
    cluster.pod_changed(msgspec.convert(bound("db-0", uid="last"), factories.pods.Pod), NOW)
    waiting = factories.pod_document("db-0", uid="next")
    server.on("GET", "/api/v1/namespaces/default/pods/db-0", apiserver.Answer(waiting))
    assert await compare() == {**NOTHING, "pod": 1}
    assert plain_cpu(cluster) == 10_000 + 3_400


async def test_differing_objects_are_replaced(compare, cluster, server):
    cluster.pod_changed(msgspec.convert(bound(node="n2"), factories.pods.Pod), NOW)
    cluster.metric_changed(report("99"))
    server.on("GET", "/api/v1/namespaces/default/pods/web-1", apiserver.Answer(bound()))
    server.on("GET", f"{NODE_METRICS}/n1", apiserver.Answer(wire(report())))
    assert await compare() == {**NOTHING, "pod": 1, "node_metric": 1}
    assert plain_cpu(cluster) == 10_000 + 3_400


async def test_a_difference_that_the_watch_resolves_is_no_drift(compare, cluster, server):
    cluster.pod_deleted("default", "web-1", "uid-web-1")
    server.on("GET", "/api/v1/namespaces/default/pods/web-1", apiserver.Answer(bound()))
    assert await compare(lambda: cluster.pod_changed(msgspec.convert(bound(), factories.pods.Pod), NOW)) == NOTHING


async def test_a_list_that_is_older_than_the_state_changes_nothing(compare, cluster, server):
    newer = bound("newer")
    cluster.pod_changed(msgspec.convert(newer, factories.pods.Pod), NOW)
    cluster.pod_deleted("default", "web-1", "uid-web-1")
    server.on("GET", "/api/v1/namespaces/default/pods/newer", apiserver.Answer(newer))
    server.on("GET", "/api/v1/namespaces/default/pods/web-1", NOT_FOUND)
    assert await compare() == NOTHING
    assert [pod.uid for pod in cluster.entries["n1"].load.pods.values()] == ["uid-newer"]


async def test_an_assumed_pod_is_left_to_its_expiry(compare, cluster):
    cluster.assume_pod(factories.pod("assumed"), "n1", NOW)
    assert await compare() == NOTHING
    assert cluster.counts()["unconfirmed_pods"] == 1


async def test_wrong_sums_are_counted_and_recomputed(compare, cluster):
    cluster.entries["n1"].load.node_delta[0] += 1
    assert await compare() == {**NOTHING, "sums": 1}
    assert plain_cpu(cluster) == 10_000 + 3_400


async def test_an_undecodable_object_is_left_to_the_watch(compare, cluster, server):
    broken = wire(factories.node("n1")) | {"status": 7}
    server._scripts["GET", NODES][:] = [apiserver.page("5", broken)]
    assert await compare() == NOTHING
    assert cluster.entries["n1"].node is not None


async def test_one_kind_that_cannot_be_listed_holds_back_no_other(server, cluster):
    server._scripts["GET", PODS] = [apiserver.status(410, "Expired", "too old")]
    server._scripts["GET", NODE_METRICS] = [apiserver.page("5", wire(report("20")))]
    server.on("GET", f"{NODE_METRICS}/n1", apiserver.Answer(wire(report("20"))))

    async def sleep(_seconds):
        pass

    async with server.session() as api:
        subject = resync.Resync(api, cluster, resync.no_drift(), lambda: NOW, sleep=sleep)
        with pytest.raises(errors.Gone, match="GET /api/v1/pods: 410"):
            await subject.run()
    assert subject.drift == {**NOTHING, "node_metric": 1}
    assert subject.completed == 0


async def test_retries_at_the_next_interval_after_an_error(server, cluster):
    server._scripts["GET", NODES][:0] = [apiserver.Answer({"kind": "Status", "code": 500}, 500)]
    seconds = []

    async def sleep(given):
        seconds.append(given)
        if len(seconds) == 3:
            raise TimeoutError

    async with server.session() as api:
        again = resync.Resync(api, cluster, resync.no_drift(), lambda: NOW, sleep=sleep)
        with pytest.raises(errors.StatusError):
            await again.run()
        server._scripts["GET", NODES][:0] = [apiserver.Answer({"kind": "Status", "code": 500}, 500)]
        with pytest.raises(TimeoutError):
            await again.run_every(60)
    assert seconds == [60, 60, 60]
    assert again.completed == 1


async def test_an_unexpected_error_ends_no_process(server, cluster, monkeypatch):
    """The watches log such an error of one object; a resync must not end the extender for it."""
    server._scripts["GET", NODE_METRICS] = [apiserver.page("5", wire(report("20")))]
    server.on("GET", f"{NODE_METRICS}/n1", apiserver.Answer(wire(report("20"))))
    monkeypatch.setattr(cluster, "metric_changed", lambda _metric: 1 // 0)
    intervals = []

    async def sleep(given):
        intervals.extend([given] if given == 60 else [])
        if len(intervals) == 3:
            raise TimeoutError

    async with server.session() as api:
        with pytest.raises(TimeoutError):
            await resync.Resync(api, cluster, resync.no_drift(), lambda: NOW, sleep=sleep).run_every(60)
