"""Whole process except for its signals, between a scripted apiserver and a client on loopback."""

import asyncio
import contextlib
import gc
import json
import ssl
import time
import urllib.error
import urllib.request

import msgspec
import pytest
import yaml

from scheduler_plugin.app import extender_app
from scheduler_plugin.app.extender_app import ExtenderApp
from scheduler_plugin.config import loader
from scheduler_plugin.extender import server as extender_server
from scheduler_plugin.kube_scheduler.frames import Kind
from scheduler_plugin.settings import SchedulerPluginSettings
from scheduler_plugin.state import blindness
from scheduler_plugin.state.informer import RUNNING_SOMEWHERE
from tests.fakes import apiserver, certificates, cluster
from tests.scheduler_plugin import factories
from tests.scheduler_plugin.kube_scheduler import peer_frames
from tests.scheduler_plugin.kube_scheduler.test_server import HELLO, SYNCED, Peer, about, pod

PODS, NODES = "/api/v1/pods", "/api/v1/nodes"


NODE_METRICS = "/apis/slo.koordinator.sh/v1alpha1/nodemetrics"


def wire(item):
    """Return an object of a factory as the apiserver sends it."""
    return json.loads(msgspec.json.encode(item))


def node(name):
    return wire(factories.node(name, cpu="10"))


def bound(name, on):
    return factories.pod_document(name, node=on, requests={"cpu": "1"}, phase="Running")


def metric(name, cpu, updated=0):
    document = wire(factories.metric(name, usage={"cpu": cpu, "memory": "1Gi"}, updated=updated))
    return document | {"metadata": {"name": name, "resourceVersion": "7"}}


def fresh(name, cpu):
    return metric(name, cpu, updated=time.time() - factories.NOW)


@pytest.fixture
async def server():
    async with apiserver.running() as running:
        running.on("GET", NODES, apiserver.page("5", node("n1"), node("n2")))
        running.on("GET", PODS, apiserver.page("5", bound("old", "n1")), selector=RUNNING_SOMEWHERE)
        running.on("GET", NODE_METRICS, apiserver.page("5", metric("n1", "1"), fresh("n2", "9")))
        for path in (NODES, NODE_METRICS):
            running.on("WATCH", path, apiserver.Stream(apiserver.HANG))
        running.on("WATCH", PODS, apiserver.Stream(apiserver.HANG), selector=RUNNING_SOMEWHERE)
        yield running


@contextlib.asynccontextmanager
async def started(server, tmp_path, configuration=None, **settings):
    kubeconfig = tmp_path / "kubeconfig"
    context = {"name": "c", "context": {"cluster": "c", "user": "u"}}
    document = {
        "clusters": [{"name": "c", "cluster": {"server": server.url}}],
        "users": [{"name": "u", "user": {"token": "t"}}],
        "contexts": [context],
        "current-context": "c",
    }
    kubeconfig.write_text(yaml.safe_dump(document))
    chosen = SchedulerPluginSettings(
        extender_port=0, http_port=0, debug_port=0, http_address="127.0.0.1", kubeconfig=str(kubeconfig), **settings
    )
    app = ExtenderApp(chosen, loader.parse_all(configuration or {}))
    running = asyncio.create_task(app.run())
    while not app.ports:
        assert not running.done(), running.exception()
        await asyncio.sleep(0.005)
    yield app.ports
    app.stop()
    await running


async def answer(port, path):
    """Return status and text of a page."""

    def call():
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}") as response:
                return response.status, response.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()

    return await asyncio.to_thread(call)


async def get(port, path):
    """Return the text of a page; None where it is an error."""
    status, text = await answer(port, path)
    return text if status == 200 else None


async def until_ready(port):
    while await get(port, "/readyz") is None:
        await asyncio.sleep(0.01)


async def post(port, verb, document):
    body = json.dumps(document, separators=(",", ":")).encode()

    def call():
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/{verb}", data=body) as response:
            return json.loads(response.read())

    return await asyncio.to_thread(call)


async def test_lists_serves_and_stops(server, tmp_path):
    async with started(server, tmp_path) as (port, http_port, debug_port):
        await until_ready(http_port)
        pod = factories.pod_document("new", requests={"cpu": "1"})
        # One report is years old, the other node is hot: both are rejected, which shows that the reports were read.
        response = await post(port, "filter", {"Pod": pod, "Nodes": None, "NodeNames": ["n1", "n2"]})
        assert response["FailedAndUnresolvableNodes"] == {
            "n1": "node(s) nodeMetric expired",
            "n2": "node(s) cpu usage exceed threshold",
        }
        (decision,) = json.loads(await get(debug_port, "/debug/pods/default/new"))["decisions"]
        assert decision["mode"] == "extender"
        page = json.loads(await get(debug_port, "/debug/nodes/n1"))
        assert [held["pod"] for held in page["pods"]] == ["default/old"]
        assert page["nodeUsage"]["cpu"] == 1000
        assert json.loads(await get(debug_port, "/debug/nodes/nowhere")) == {}
        assert json.loads(await get(debug_port, "/debug/nodes/")) == {
            "n1": factories.NOW,
            "n2": pytest.approx(time.time(), abs=60),
        }
        configuration = await get(debug_port, "/debug/config")
        assert "LoadAwareScheduling" in configuration
        assert "&id" not in configuration
        text = await get(http_port, "/metrics")
        assert "refused_pods" not in text, "an extender wakes none"
    for line in (
        'koord_scheduler_plugin_requests_total{outcome="ok",verb="filter"} 1.0',
        'koord_scheduler_plugin_requests_total{outcome="ok",verb="preempt"} 0.0',
        'rejected_nodes_total{plugin="LoadAwareScheduling",reason="node(s) nodeMetric expired"} 1.0',
        'koord_scheduler_plugin_filtered_pods_total{outcome="none_passed"} 1.0',
        'koord_scheduler_plugin_bound_pods_total{choice="best"} 0.0',
        'koord_scheduler_plugin_nodes{report_age_at_most_seconds="inf"} 1.0',
        'koord_scheduler_plugin_nodes{report_age_at_most_seconds="60"} 1.0',
        "koord_scheduler_plugin_recorded_decisions 1.0",
        'koord_scheduler_plugin_tracked_objects{kind="nodes"} 2.0',
        'koord_scheduler_plugin_tracked_objects{kind="pods"} 1.0',
        'koord_scheduler_plugin_watch_lists_total{watch="pods"} 1.0',
        'koord_scheduler_plugin_request_duration_seconds_count{verb="filter"} 1.0',
    ):
        assert line in text
    assert {request.query["fieldSelector"] for request in server.asked("GET", PODS)} == {
        "spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed"
    }


async def test_is_not_ready_before_every_list_is_complete_and_names_the_missing_one(server, tmp_path):
    server._scripts["GET", NODE_METRICS][:] = [apiserver.NOT_SERVED]
    async with started(server, tmp_path) as (port, http_port, _debug_port):
        status, text = 0, ""
        async with asyncio.timeout(20):
            while not text.strip().endswith("crds.install))"):  # no other list is missing by then
                status, text = await answer(http_port, "/readyz")
        assert text.startswith("waiting for the first list of node_metrics (GET ")
        assert status == 503
        assert "event loop last seen" in await get(http_port, "/healthz")
        pod = factories.pod_document("new", requests={"cpu": "1"})
        assert (await post(port, "filter", {"Pod": pod, "NodeNames": ["n1"]}))["NodeNames"] == ["n1"]


async def test_kube_scheduler_does_not_wait_without_limit_for_a_missing_crd(server, tmp_path):
    server._scripts["GET", NODE_METRICS][:] = [apiserver.NOT_SERVED]

    async def has_connected(times):
        """Wait for all connections of the process: one that is cancelled while it connects leaves its socket open."""
        await server.until(lambda: all(len(server.asked("WATCH", path)) >= times for path in (NODES, PODS)))
        await server.until(lambda: len(server.asked("GET", NODE_METRICS)) >= times)

    async with started(server, tmp_path) as (_port, http_port, _debug_port):
        await has_connected(1)
        assert await get(http_port, "/startupz") is None
    async with started(server, tmp_path, startup_patience_seconds=0.0) as (_port, http_port, _debug_port):
        await has_connected(2)
        text = await get(http_port, "/startupz")
        assert "node_metrics" in text
        assert "started without it" in text
        assert await get(http_port, "/readyz") is None


async def test_a_node_with_an_expired_report_passes_only_while_the_watch_of_reports_is_silent(
    server, tmp_path, monkeypatch
):
    monkeypatch.setattr(extender_app, "_HEARTBEAT_SECONDS", 0.01)
    pod = factories.pod_document("new", requests={"cpu": "1"})
    arguments = {"Pod": pod, "Nodes": None, "NodeNames": ["n1", "n2"]}
    async with started(server, tmp_path) as (port, http_port, _):
        await until_ready(http_port)
        await asyncio.sleep(0.1)  # some checks
        assert "n1" in (await post(port, "filter", arguments))["FailedAndUnresolvableNodes"]
        assert (await get(http_port, "/readyz")).strip() == "caches are synced"
        monkeypatch.setattr(blindness, "SILENT_SECONDS", 0.05)
        async with asyncio.timeout(10):
            while (await post(port, "filter", arguments))["NodeNames"] != ["n1"]:
                await asyncio.sleep(0.01)
        assert "caches are synced; nodes with expired reports pass: " in await get(http_port, "/readyz")


def mid_pod(name, namespace):
    requests = {"kubernetes.io/mid-cpu": "1000", "kubernetes.io/mid-memory": "1Gi"}
    return pod(name, namespace=namespace, priority=7500, requests=requests)


async def test_the_plugin_holds_quotas_and_a_freeze_without_any_report(tmp_path):
    frozen = {"data": {"colocation-config": '{"enable": true, "midEmergency": "freeze"}'}}
    last_good = {"metadata": {"name": "koord-manager-last-good-config"}}
    quota = {"koordinator.sh/mid-quota": '{"cpu": "1"}'}
    async with cluster.running() as api:
        api.refuse["GET", "nodemetrics"] = cluster.Refusal(403, "Forbidden")
        mid = {"kubernetes.io/mid-cpu": "8000", "kubernetes.io/mid-memory": "8Gi"}
        api.add("nodes", wire(factories.node("n1", **mid)))
        api.add("namespaces", {"metadata": {"name": "team", "annotations": quota}})
        socket = tmp_path / "plugin.sock"
        settings = {"plugin_socket": str(socket), "manager_namespace": "koordinator-system"}
        async with started(api, tmp_path, **settings), asyncio.timeout(20):
            peer = Peer(*await asyncio.open_unix_connection(str(socket)))

            async def refusal(name):
                """Return the code of the node; 0 passes."""
                peer.send(about(Kind.ASK, f"uid-{name}"))
                codes = peer_frames.read_answer((await peer.next(Kind.ANSWER)).payload).codes
                return 0 if codes is None else int(codes[0])

            peer.send(HELLO, pod("web"), mid_pod("first", "team"), mid_pod("second", "team"))
            peer.send(mid_pod("free", "other"), SYNCED)
            while (await peer.next(Kind.READY)).payload != b"\1":
                pass
            assert [await refusal(name) for name in ("web", "first", "free")] == [0, 0, 0]
            peer.send(about(Kind.RESERVE, "uid-first", "n1"))
            beyond_quota = await refusal("second")
            assert beyond_quota
            assert await refusal("free") == 0

            api.add("configmaps", last_good | frozen, "koordinator-system")
            while not (code := await refusal("free")):
                await asyncio.sleep(0.01)
            assert code != beyond_quota
            assert await refusal("web") == 0
            await peer.end()


async def test_watch_events_change_the_state(server, tmp_path):
    gone = apiserver.event("DELETED", bound("old", "n1"))
    added = apiserver.event("ADDED", bound("new", "n2"))
    server._scripts["WATCH", f"{PODS}?{RUNNING_SOMEWHERE}"][:] = [apiserver.Stream(gone, added, apiserver.HANG)]
    node_gone = apiserver.event("DELETED", node("n1"))
    server._scripts["WATCH", NODES][:] = [apiserver.Stream(node_gone, apiserver.HANG)]
    report_gone = apiserver.event("DELETED", metric("n1", "1"))
    server._scripts["WATCH", NODE_METRICS][:] = [apiserver.Stream(report_gone, apiserver.HANG)]
    async with started(server, tmp_path) as (_port, http_port, debug_port):
        while json.loads(await get(debug_port, "/debug/nodes/n1")):
            await asyncio.sleep(0.01)
        await until_ready(http_port)
        while [held["pod"] for held in json.loads(await get(debug_port, "/debug/nodes/n2"))["pods"]] != ["default/new"]:
            await asyncio.sleep(0.01)


async def test_a_renewed_certificate_is_served_without_a_restart(server, tmp_path, monkeypatch):
    monkeypatch.setattr(extender_server, "_CHECK_SECONDS", 0.02)
    first, renewed = (certificates.make(tmp_path, name) for name in ("first", "renewed"))
    settings = {"extender_tls_cert_file": str(first.certificate_path), "extender_tls_key_file": str(first.key_path)}
    before, after = (each.certificate_path.read_text() for each in (first, renewed))

    async def served(port):
        return await asyncio.to_thread(ssl.get_server_certificate, ("127.0.0.1", port))

    async with started(server, tmp_path, **settings) as (port, _http_port, _debug_port), asyncio.timeout(20):
        assert await served(port) == before
        certificates.replace(first.key_path, renewed.key_path)
        certificates.replace(first.certificate_path, renewed.certificate_path)
        while await served(port) != after:
            await asyncio.sleep(0.01)


@pytest.fixture
def nothing_frozen():
    gc.unfreeze()
    yield
    gc.unfreeze()


@pytest.mark.parametrize("missing", [(), ("nodes",)])
async def test_objects_are_frozen_once_every_list_is_complete(missing, nothing_frozen, monkeypatch):
    app = ExtenderApp(SchedulerPluginSettings(extender_port=0, http_port=0, debug_port=0), loader.parse_all({}))
    monkeypatch.setattr(app, "_unsynced", lambda: list(missing))
    housekeeping = asyncio.create_task(app._housekeeping())
    await asyncio.sleep(0)  # its first round ends where it waits for the second
    housekeeping.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await housekeeping
    assert (gc.get_freeze_count() > 0) is not bool(missing)
