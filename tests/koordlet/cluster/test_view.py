"""None"""

from __future__ import annotations

import asyncio
import contextlib

import pytest

from api_types.colocation import controller_config
from apiserver_client import objects
from koordlet.cluster import view as cluster_view
from tests.fakes import apiserver, watch_faults

PODS = "/api/v1/pods"
NODES = "/api/v1/nodes"
NODE_METRICS = "/apis/slo.koordinator.sh/v1alpha1/nodemetrics"

NODE = {
    "metadata": {"name": "n1", "resourceVersion": "3"},
    "status": {"capacity": {"cpu": "4", "memory": "8Gi"}, "allocatable": {"cpu": "3500m", "memory": "7Gi"}},
}
POD = {
    "metadata": {"name": "p", "namespace": "ns", "uid": "u"},
    "spec": {"containers": []},
    "status": {"phase": "Running"},
}


def node_metric(version="5", generation=2, **spec):
    return {"metadata": {"name": "n1", "resourceVersion": version, "generation": generation}, "spec": spec}


def changed(kind, document):
    return {"type": kind, "object": document}


@contextlib.asynccontextmanager
async def watching(server, until, policy_below_spec=None):
    view = cluster_view.ClusterView("n1", policy_below_spec)
    async with server.session() as api:
        task = asyncio.create_task(view.watch(api))
        async with asyncio.timeout(10):
            while not until(view):
                await asyncio.sleep(0.005)
        yield view
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


def script(server, *, metrics=(), then=(), node=NODE, node_then=(), pods=(POD,), pods_then=()):
    server.on("GET", PODS, apiserver.page("1", *pods))
    server.on("GET", NODES, apiserver.page("3", node))
    server.on("GET", NODE_METRICS, apiserver.page("5", *metrics))
    server.on("WATCH", PODS, apiserver.Stream(*pods_then, apiserver.HANG))
    server.on("WATCH", NODES, apiserver.Stream(*node_then, apiserver.HANG))
    server.on("WATCH", NODE_METRICS, apiserver.Stream(*then, apiserver.HANG))


def all_synced(view):
    return all(state.synced for state in view.watches.values())


async def test_only_objects_of_the_own_node_are_listed():
    async with apiserver.running() as server:
        script(server)
        async with watching(server, all_synced) as view:
            assert [pod.uid for pod in view.pods.active()] == ["u"]
            assert view.allocatable == (3500, 7 << 30)
            assert view.capacity == (4000, 8 << 30)
            assert view.resource_version is None
        selectors = {request.path: request.query["fieldSelector"] for request in server.asked("GET")}
    assert selectors == {PODS: "spec.nodeName=n1", NODES: "metadata.name=n1", NODE_METRICS: "metadata.name=n1"}


@pytest.mark.parametrize(
    ("below", "spec", "predictor", "lacks"),
    [
        (None, {"metricCollectPolicy": {}}, None, True),
        ({"predictor": "percentile"}, {"metricCollectPolicy": {}}, "percentile", False),
        ({"predictor": "percentile"}, {"predictPolicy": {"predictor": "max"}}, "max", False),
        (None, {"predictPolicy": {"n": 3}}, None, False),
    ],
)
async def test_the_policy_of_the_settings_is_below_that_of_the_spec(below, spec, predictor, lacks):
    policy = None if below is None else controller_config.PredictPolicy(**below, n=7)
    async with apiserver.running() as server:
        script(server, metrics=[node_metric(**spec)])
        async with watching(server, all_synced, policy) as view:
            in_force = view.spec.predict_policy
            assert (in_force and in_force.predictor) == predictor
            assert view.lacks_policy is lacks
            assert below is None or in_force.n == 7, "keys that the spec leaves out are those of the settings"


@pytest.mark.parametrize("missing", ["cpu", "memory"])
async def test_a_capacity_of_0_is_not_known(missing):
    """A kubelet that cannot read the machine reports it. A peak of at most 0 would offer all that Prod requests."""
    without = {**NODE, "status": {**NODE["status"], "capacity": {"cpu": "4", "memory": "8Gi", missing: "0"}}}
    async with apiserver.running() as server:
        script(server, node=without)
        async with watching(server, all_synced) as view:
            assert view.capacity is None
            assert view.allocatable == (3500, 7 << 30)


async def test_a_changed_spec_takes_effect_with_its_generation():
    async with apiserver.running() as server:
        newer = node_metric("6", 3, predictPolicy={"n": 3})
        script(server, metrics=[node_metric(predictPolicy={"n": 4})], then=[changed("MODIFIED", newer)])
        async with watching(server, lambda view: view.generation == 3) as view:
            assert view.spec.predict_policy.n == 3
            assert view.resource_version == "6"


async def test_an_invalid_spec_leaves_the_previous_one_in_force():
    async with apiserver.running() as server:
        broken = node_metric("6", 3, predictPolicy={"n": "many"})
        script(server, metrics=[node_metric(predictPolicy={"n": 4})], then=[changed("MODIFIED", broken)])
        async with watching(server, lambda view: view.spec_problem) as view:
            assert view.spec.predict_policy.n == 4
            assert view.generation == 2
            assert view.spec_problem.startswith("spec.predictPolicy.n is 'many'")


@pytest.mark.parametrize(
    ("duration", "problem"),
    [
        ("500ms", "is too short"),
        ("-5m0s", "is too short"),
        ("0s", "is too short"),
        ("12h0m1s", "is too long, want 1s to 12h0m0s"),
        ("soon", "is not a duration"),
        ("", "is not a duration"),
    ],
)
async def test_an_invalid_window_leaves_the_previous_spec_in_force(duration, problem):
    """Otherwise no report could be made, and the manager would withdraw Mid."""
    async with apiserver.running() as server:
        broken = node_metric("6", 3, metricCollectPolicy={"nodeAggregatePolicy": {"durations": ["5m0s", duration]}})
        script(server, metrics=[node_metric(predictPolicy={"n": 4})], then=[changed("MODIFIED", broken)])
        async with watching(server, lambda view: view.spec_problem) as view:
            assert (view.spec.predict_policy.n, view.generation) == (4, 2)
            assert view.resource_version == "6"
            wanted = f"spec.metricCollectPolicy.nodeAggregatePolicy.durations: '{duration}' {problem}"
            assert view.spec_problem.startswith(wanted)


async def test_the_first_list_of_every_watch_is_served_from_the_cache_of_the_apiserver():
    async with apiserver.running() as server:
        script(server)
        async with watching(server, all_synced):
            pass
        lists = [request for request in server.asked("GET") if "watch" not in request.query]
        assert {request.path: request.query.get("resourceVersion") for request in lists} == {
            PODS: "0",
            NODES: "0",
            NODE_METRICS: "0",
        }


async def test_a_pod_that_cannot_be_decoded_is_named_until_it_can_be_and_stays_bound():
    broken = {**POD, "metadata": {**POD["metadata"], "resourceVersion": "7"}, "spec": {"containers": "many"}}
    fixed = {**POD, "metadata": {**POD["metadata"], "resourceVersion": "8"}}
    async with apiserver.running() as server:
        script(server, pods_then=[changed("MODIFIED", broken)])
        async with watching(server, lambda view: view.unreadable) as view:
            ((name, reason),) = view.unreadable.items()
            assert name == ("pods", f"{POD['metadata']['namespace']}/{POD['metadata']['name']}")
            assert "containers" in reason
            assert [pod.uid for pod in view.pods.active()] == ["u"]
    async with apiserver.running() as server:
        script(server, pods_then=[changed("MODIFIED", broken), changed("MODIFIED", fixed)])
        async with watching(server, lambda view: view.watches["pods"].unreadable and not view.unreadable):
            pass


async def test_without_a_node_metric_there_is_nothing_to_write_to():
    async with apiserver.running() as server:
        script(server, metrics=[node_metric()], then=[changed("DELETED", node_metric("9"))])
        async with watching(server, lambda view: all_synced(view) and view.resource_version is None):
            pass


def reserving(text):
    return {**NODE, "metadata": {**NODE["metadata"], "annotations": {"node.koordinator.sh/reservation": text}}}


@pytest.mark.parametrize(
    ("text", "allocatable"),
    [('{"resources": {"cpu": "2", "memory": "512Mi"}}', (2000, 7 << 30)), ('{"reservedCPUs": "0-2"}', (1000, 7 << 30))],
)
async def test_resources_reserved_by_an_annotation_are_not_allocatable(text, allocatable):
    async with apiserver.running() as server:
        script(server, node=reserving(text))
        async with watching(server, all_synced) as view:
            assert (view.allocatable, view.capacity) == (allocatable, (4000, 8 << 30))
            assert view.reservation_problem is None


async def test_an_invalid_annotation_reserves_nothing_and_is_reported_until_it_is_fixed(caplog):
    async with apiserver.running() as server:
        broken, fixed = reserving('{"resources": {"cpu": "-2"}}'), reserving('{"resources": {"memory": "2Gi"}}')
        script(server, node=broken, node_then=[changed("MODIFIED", fixed)])
        async with watching(server, lambda view: view.allocatable == (3500, 6 << 30)) as view:
            assert view.reservation_problem is None
    wanted = (
        'Node n1: metadata.annotations.node.koordinator.sh/reservation.resources.cpu: seen "-2", '
        "want a quantity of at least 0, like 500m or 4Gi; the annotation is ignored"
    )
    assert [record.message for record in caplog.records if "reservation" in record.message] == [wanted]


async def test_after_etcd_was_restored_the_older_state_replaces_the_known_one():
    expired = apiserver.status(410, "Expired")
    other = {**POD, "metadata": {"name": "q", "namespace": "ns", "uid": "v"}}
    async with apiserver.running() as server:
        script(server, metrics=[node_metric("899", 7)])
        server._scripts["GET", PODS][:] = [apiserver.page("900", POD, other), apiserver.page("4", POD)]
        server._scripts["WATCH", PODS][:] = [expired, apiserver.Stream(apiserver.HANG)]
        server._scripts["GET", NODE_METRICS][:] = [
            apiserver.page("900", node_metric("899", 7)),
            apiserver.page("4", node_metric("3", 2)),
        ]
        server._scripts["WATCH", NODE_METRICS][:] = [expired, apiserver.Stream(apiserver.HANG)]
        restored = ("pods", "node_metric")
        async with watching(server, lambda view: all(view.watches[name].lists > 1 for name in restored)) as view:
            await server.until(lambda: len(server.asked("WATCH", PODS)) > 1)
            await server.until(lambda: len(server.asked("WATCH", NODE_METRICS)) > 1)
            assert (view.resource_version, view.generation) == ("3", 2)
            assert set(view.pods.by_uid()) == {"u"}


@pytest.mark.parametrize("faults", watch_faults.RESUMED.values(), ids=watch_faults.RESUMED)
@pytest.mark.usefixtures("short_silence")
async def test_watches_that_fail_are_resumed_and_every_edit_since_is_followed(faults):
    other = {**POD, "metadata": {"name": "q", "namespace": "ns", "uid": "v", "resourceVersion": "6"}}
    edits = {
        NODE_METRICS: [changed("MODIFIED", node_metric("6", 3, predictPolicy={"n": 3}))],
        PODS: [changed("ADDED", other), changed("DELETED", POD)],
    }
    async with apiserver.running() as server:
        script(server, metrics=[node_metric(predictPolicy={"n": 4})])
        for path, events in edits.items():
            server._scripts["WATCH", path][:] = [*faults, apiserver.Stream(*events, apiserver.HANG)]
        async with watching(server, lambda view: view.generation == 3 and set(view.pods.by_uid()) == {"v"}) as view:
            assert view.spec.predict_policy.n == 3
        for path, version in ((NODE_METRICS, "5"), (PODS, "1")):
            resumed_from = [request.query["resourceVersion"] for request in server.asked("WATCH", path)]
            assert resumed_from == [version] * (len(faults) + 1)
            assert len(server.asked("GET", path)) == 1


def forged_mirror_pod(uid_of_another):
    annotations = {"kubernetes.io/config.hash": uid_of_another, "kubernetes.io/config.mirror": uid_of_another}
    owners = [{"kind": "Node", "name": "n1", "uid": "node-uid"}]
    return {
        "metadata": {
            "name": "thief",
            "namespace": "ns",
            "uid": "t",
            "annotations": annotations,
            "ownerReferences": owners,
        },
        "spec": {"containers": []},
        "status": {"phase": "Running", "startTime": "2026-11-22T00:00:00Z"},
    }


async def test_a_claim_to_the_uid_of_another_pod_is_refused_and_named_once(caplog):
    async with apiserver.running() as server:
        thief = forged_mirror_pod("u")
        other = {**POD, "metadata": {**POD["metadata"], "name": "later", "uid": "l"}}
        script(server, pods=[thief, POD], pods_then=[changed("MODIFIED", thief), changed("ADDED", other)])
        async with watching(server, lambda view: "l" in view.pods.by_uid()) as view:
            assert {uid: pod.name for uid, pod in view.pods.by_uid().items()} == {"u": "p", "t": "thief", "l": "later"}
            for _tick in range(3):
                view.log_refused_pods()
    wanted = (
        "pod ns/thief: annotation kubernetes.io/config.mirror claims the UID u of ns/p; the pod is charged its request"
    )
    assert [record.message for record in caplog.records if "claims" in record.message] == [wanted]


async def test_an_unexpected_error_of_one_pod_ends_no_watch(monkeypatch, caplog):
    describe = cluster_view.pods_on_node.describe

    def failing(pod, node_name):
        if pod.metadata.name == "p":
            raise RuntimeError("boom")
        return describe(pod, node_name)

    monkeypatch.setattr(cluster_view.pods_on_node, "describe", failing)
    other = {**POD, "metadata": {"name": "q", "namespace": "ns", "uid": "v"}}
    async with apiserver.running() as server:
        script(server, pods=[POD, other])
        async with watching(server, all_synced) as view:
            assert [pod.name for pod in view.pods.active()] == ["q"]
    assert "pod ns/p is ignored" in caplog.text


def as_sent(name, filler=b'""'):
    document = b'{"metadata":{"name":"%s","namespace":"ns","uid":"%s"},"filler":%s,"spec":{"containers":[]}}'
    return document % (name.encode(), name.encode(), filler)


@pytest.mark.parametrize(
    ("giants", "filler"),
    [(1, b'{"f:a":' * 9_990 + b"1" + b"}" * 9_990), (100, b'"%s"' % (b"x" * 2**14))],
    ids=["10,000 levels", "100 large pods"],
)
async def test_pods_of_any_size_and_depth_keep_no_other_pod_of_the_node_unknown(monkeypatch, giants, filler):
    """As 100 pods of a mebibyte: all sizes are those of the product by 64."""
    monkeypatch.setattr(objects, "_MOST_PAGE_BYTES", objects._MOST_PAGE_BYTES // 64)
    pods = [*(as_sent(f"giant-{number}", filler) for number in range(giants)), *(as_sent(f"p{n}") for n in range(20))]
    async with apiserver.running() as server:
        script(server)
        server.on("GET", "/api/v1/pods", apiserver.pages("1", *pods), selector="spec.nodeName=n1")
        async with watching(server, all_synced) as view:
            assert len(view.pods.active()) == giants + 20
            assert view.unreadable == {}


# Log lines about the annotation of a Node that reserves resources, and a list in which objects are readable again.


def test_a_write_replaces_the_version_that_it_was_sent_with_and_no_newer_one():
    view = cluster_view.ClusterView("n1")
    view.resource_version = "5"
    view.note_write("5", "6")
    assert view.resource_version == "6"
    view.note_write("5", "7")
    assert view.resource_version == "6"
    view.note_write("6", None)
    assert view.resource_version is None


async def test_a_reset_is_requested_until_its_annotation_is_gone():
    annotated = node_metric("6", 3)
    annotated["metadata"]["annotations"] = {"koordinator.sh/reset-prediction": "now"}
    async with apiserver.running() as server:
        script(server, metrics=[annotated])
        async with watching(server, all_synced) as view:
            assert view.reset_request == "now"
            view._follow({**annotated, "metadata": {**annotated["metadata"], "annotations": {"other": "x"}}})
            assert view.reset_request == ""


@pytest.mark.parametrize(("status", "since"), [("True", "2026-01-01T00:00:00Z"), ("odd", None)])
async def test_the_conditions_of_the_last_report_are_read_back_and_odd_ones_cost_nothing_else(status, since):
    condition = {"type": "Ready", "status": status, "lastTransitionTime": "2026-01-01T00:00:00Z"}
    metric = node_metric() | {"status": {"conditions": [condition], "podsMetric": "odd"}}
    async with apiserver.running() as server:
        script(server, metrics=[metric])
        async with watching(server, all_synced) as view:
            assert [item.to_wire()["lastTransitionTime"] for item in view.conditions] == ([since] if since else [])
            assert view.generation == 2
