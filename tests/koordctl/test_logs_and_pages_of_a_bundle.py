"""Which logs and pages of which pods `koordctl bundle` collects."""

import asyncio

import pytest

from apiserver_client import session
from apiserver_client.connection import Connection
from fleet.port_forward import Caller
from koordctl.bundle.archive import Archive
from koordctl.bundle.collecting import Collector
from tests.fakes import apiserver, fake_kubectl
from tests.fleet import cluster
from tests.koordctl.test_files_of_a_bundle import content_of

SUITE = "koordinator-system"
PODS = f"/api/v1/namespaces/{SUITE}/pods"
PARTS = ("koordlet", "koord-manager", "koord-scheduler")


@pytest.fixture(autouse=True)
def no_kubectl(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))


def pod(name, *, ready=True, restarts=0, containers=("main",)):
    statuses = [{"name": each, "restartCount": restarts} for each in containers]
    conditions = [{"type": "Initialized", "status": "True"}, {"type": "Ready", "status": str(ready)}]
    return {"metadata": {"name": name}, "status": {"containerStatuses": statuses, "conditions": conditions}}


def collected(tmp_path, *of_parts):
    """Collect where each part has the given pods; return the archive, its files, the requests and the reports."""
    reports = []

    async def collect():
        async with apiserver.running() as server:
            server.on("GET", PODS, *(apiserver.Answer(cluster.listing(*each)) for each in of_parts))
            for each in (each for of_part in of_parts for each in of_part):
                name = each["metadata"]["name"]
                server.on("GET", f"{PODS}/{name}/log", apiserver.Answer(f"password={name}\nof {name}\n".encode()))
            with Archive(tmp_path / "b.tgz", 0.0) as archive:
                async with session.connect(Connection(server.url, "test"), user_agent="test/1") as api:
                    await Collector(api, archive, SUITE, Caller(), lambda *each: reports.append(each)).collect(["c"])
            return archive, list(server.requests)

    archive, requests = asyncio.run(collect())
    return archive, content_of(tmp_path / "b.tgz"), requests, reports


def test_each_part_has_its_pods_and_the_ports_of_its_pages(tmp_path):
    archive, files, requests, _ = collected(tmp_path, *([pod(f"{part}-1")] for part in PARTS))
    selectors = [each.query["labelSelector"] for each in requests if each.path == PODS]
    assert selectors == [f"app.kubernetes.io/name={part}" for part in PARTS]
    assert [f"pods/{part}.json" in files for part in PARTS] == [True] * 3
    pages = [each.partition(":")[0] for each in archive.missing if each.startswith("pages of")]
    assert pages == [
        "pages of koordlet-1, port 9316", "pages of koord-manager-1, port 9317",
        "pages of koord-scheduler-1, port 10262", "pages of koord-scheduler-1, port 10263",
    ]  # fmt: skip
    assert files["missing.txt"].decode().splitlines() == archive.missing
    wanted = {"workloads/koordlet.json", "workloads/koord-manager.json", "workloads/koord-scheduler.json",
              "leases/koord-manager.json", "leases/koord-scheduler.json", "configmaps/c.json", "events.jsonl",
              "nodes.jsonl", "nodemetrics.jsonl"}  # fmt: skip
    assert wanted <= {each.partition(":")[0] for each in archive.missing}


def test_a_container_that_was_restarted_has_two_logs_without_secrets(tmp_path):
    pods = [pod("m-1", restarts=2, containers=("main", "side")), pod("m-2")]
    _, files, requests, _ = collected(tmp_path, [], pods, [])
    logs = {name.removeprefix("logs/"): text.decode() for name, text in files.items() if name.startswith("logs/")}
    assert logs == {
        "m-1-main.log": "password=REMOVED\nof m-1\n", "m-1-main-previous.log": "password=REMOVED\nof m-1\n",
        "m-1-side.log": "password=REMOVED\nof m-1\n", "m-1-side-previous.log": "password=REMOVED\nof m-1\n",
        "m-2-main.log": "password=REMOVED\nof m-2\n",
    }  # fmt: skip
    asked = [each.query for each in requests if each.path.endswith("/log")]
    assert [(each["container"], each.get("previous")) for each in asked] == [
        ("main", None), ("main", "true"), ("side", None), ("side", "true"), ("main", None),
    ]  # fmt: skip
    assert {each["timestamps"] for each in asked} == {"true"}
    assert all(int(each["tailLines"]) > 0 and int(each["limitBytes"]) > 0 for each in asked)


@pytest.mark.parametrize(("part", "most"), [(0, 5), (1, 10), (2, 10)])
@pytest.mark.parametrize("more", [0, 2])
def test_of_many_pods_those_that_are_not_ready_are_read_first(tmp_path, part, most, more):
    pods = [pod(f"p-{number}", ready=number < most + more - 1) for number in range(most + more)]
    archive, files, _, _ = collected(tmp_path, *(pods if number == part else [] for number in range(3)))
    logs = [name.removeprefix("logs/").removesuffix("-main.log") for name in files if name.startswith("logs/")]
    assert logs == [f"p-{most + more - 1}", *(f"p-{number}" for number in range(most - 1))]
    named = [each for each in archive.missing if each.startswith("logs and metrics of")]
    assert named == ([f"logs and metrics of 2 pods of {PARTS[part]}: only {most} are read"] if more else [])


def test_a_pod_without_a_status_has_no_log(tmp_path):
    bare = [{"metadata": {"name": "a"}}, {"metadata": {"name": "b"}, "status": {"containerStatuses": None}}]
    _, files, requests, _ = collected(tmp_path, bare, [], [])
    assert "pods/koordlet.json" in files
    assert not [each for each in requests if each.path.endswith("/log")]


def test_the_progress_has_each_file_and_the_number_of_those_before(tmp_path):
    archive, _, _, reports = collected(tmp_path, [pod("a-1")], [], [])
    assert reports[0] == ("nodes.jsonl", 0)
    assert ("logs/a-1-main.log", 1) in reports  # after the pods of this part
    assert ("pages of a-1, port 9316", 2) in reports
    assert [name for name in archive.names if name != "missing.txt"] == [
        "pods/koordlet.json", "logs/a-1-main.log", "pods/koord-manager.json", "pods/koord-scheduler.json",
    ]  # fmt: skip


def test_the_decision_records_of_a_scheduler_are_pages_of_their_own(tmp_path, monkeypatch):
    fake_kubectl.install(tmp_path, monkeypatch, fake_kubectl.SERVES)
    _, files, _, _ = collected(tmp_path, [], [], [pod("s-1")])
    pages = {name.removeprefix("pages/s-1"): text.decode() for name, text in files.items() if name.startswith("pages/")}
    assert pages == {
        "-metrics.txt": "/metrics", "-debug-pods.txt": "/debug/pods/", "-debug-nodes.txt": "/debug/nodes/",
        "-debug-config.txt": "/debug/config",
    }  # fmt: skip
