"""Decision records of the scheduler plugin, also of one pod."""

import json

import pytest

from console.cluster import reading
from console.cluster.details import Records
from fleet.port_forward import Caller
from tests.console import browsers, fleets
from tests.fakes import apiserver, fake_kubectl
from tests.fleet import cluster

pytestmark = pytest.mark.slow
NAMESPACE = "koordinator-system"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
LEASE = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/koord-scheduler"
DECISION = {"pod": "shop/web-0", "node": "worker-1"}


def scheduler(name, phase="Running"):
    return {"metadata": {"name": name, "namespace": NAMESPACE}, "spec": {}, "status": {"phase": phase}}


def held_by(holder):
    return apiserver.Answer({"metadata": {"name": "koord-scheduler"}, "spec": {"holderIdentity": holder}})


async def read(*pods, lease=None, pod=""):
    async with apiserver.running() as server:
        server.on("GET", PODS, apiserver.Answer(cluster.listing(*pods)))
        server.on("GET", LEASE, lease or apiserver.status(404, "NotFound", name="koord-scheduler", kind="leases"))
        async with server.session() as api:
            return await reading.read_records(api, NAMESPACE, Caller(), pod)


@pytest.mark.parametrize("holder", [None, "", "koord-scheduler-gone_1", "koord-scheduler-b_1"])
async def test_the_leader_is_asked_or_the_first_that_runs(tmp_path, monkeypatch, holder):
    ran = fake_kubectl.install(tmp_path, monkeypatch, fake_kubectl.serving(json.dumps([DECISION]).encode()))
    pods = scheduler("koord-scheduler-0", "Pending"), scheduler("koord-scheduler-b"), scheduler("koord-scheduler-a")
    found = await read(*pods, lease=None if holder is None else held_by(holder or None))
    asked = "b" if holder == "koord-scheduler-b_1" else "a"
    assert f"pod/koord-scheduler-{asked}" in json.loads(ran.read_text())[1]
    assert (found.recent, found.decisions, found.missing) == ([DECISION], [], "")


async def test_the_decisions_on_a_pod_are_read_beside_the_recent_ones(tmp_path, monkeypatch):
    page = json.dumps({"decisions": [DECISION]}).encode()
    fake_kubectl.install(tmp_path, monkeypatch, fake_kubectl.serving(page))
    found = await read(scheduler("koord-scheduler-a"), pod="shop/web-0")
    assert (found.pod, found.decisions, found.missing) == ("shop/web-0", [DECISION], "")


async def test_a_page_that_is_an_error_has_no_decisions(tmp_path, monkeypatch):
    fake_kubectl.install(tmp_path, monkeypatch, fake_kubectl.serving(json.dumps([DECISION]).encode(), 503))
    assert await read(scheduler("koord-scheduler-a"), pod="shop/web-0") == Records([], "shop/web-0", [])


async def test_without_a_running_scheduler_none_is_asked(tmp_path, monkeypatch):
    ran = fake_kubectl.install(tmp_path, monkeypatch, fake_kubectl.SERVES)
    found = await read(scheduler("koord-scheduler-a", "Failed"))
    assert found == Records(missing=f"No pod of koord-scheduler runs in the namespace {NAMESPACE}.")
    assert not ran.exists()


async def test_a_right_that_is_missing_is_the_reason(tmp_path, monkeypatch):
    refused = "error: pods is forbidden: cannot create resource pods/portforward"
    fake_kubectl.install(tmp_path, monkeypatch, f"sys.exit({refused!r})")
    found = await read(scheduler("koord-scheduler-a"))
    assert found.missing.startswith("The decision records were not read: ")
    assert "resources: [pods/portforward]" in found.missing


@pytest.mark.parametrize(
    ("pod", "wanted", "other"), [("shop/web", "of this pod", "of all pods"), ("web", "of all pods", "of this pod")]
)
async def test_records_are_those_of_a_pod_with_its_namespace_and_of_all_otherwise(pod, wanted, other):
    given = {("records", pod): Records(missing="of this pod"), ("records", ""): Records(missing="of all pods")}
    asgi, _ = browsers.app(fleets.seen(fleets.nodes(1)), given)
    async with browsers.client(asgi) as opened:
        answer = await opened.get("/decisions", params={"pod": pod})
    assert wanted in answer.text
    assert other not in answer.text
