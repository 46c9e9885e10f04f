"""`koordctl bundle`: what is in the file and what is missing, its name, logs and pages, and that no secret is."""

import asyncio
import datetime as dt
import json
import stat
import tarfile

import pytest

from apiserver_client import session
from apiserver_client.connection import Connection
from component_base import clock
from fleet.port_forward import Caller
from koordctl import __main__ as koordctl
from koordctl.bundle import command
from koordctl.bundle.command import Archive, BundleCollector
from tests.fakes import apiserver, fake_kubectl
from tests.fleet import cluster
from tests.koordctl.serving import healthy, kubeconfig_of

pytestmark = pytest.mark.slow

SUITE = "/api/v1/namespaces/koordinator-system"
SECRET = "s3cr3t-Value/123456"
POD = {
    "metadata": {"name": "koord-manager-1", "labels": {"app.kubernetes.io/name": "koord-manager"}},
    "spec": {"containers": [{"name": "manager", "env": [{"name": "PASSWORD", "value": SECRET}]}]},
    "status": {"containerStatuses": [{"name": "manager", "restartCount": 1}]},
}


@pytest.fixture(autouse=True)
def no_kubectl(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))


def routes(server):
    server.on("GET", "/api/v1/nodes", apiserver.Answer(cluster.listing(cluster.node())))
    server.on(
        "GET", "/apis/slo.koordinator.sh/v1alpha1/nodemetrics", apiserver.Answer(cluster.listing(cluster.metric()))
    )
    config = {"metadata": {"name": "slo-controller-config"}, "data": {"colocation-config": f'{{"token": "{SECRET}"}}'}}
    server.on("GET", f"{SUITE}/configmaps/slo-controller-config", apiserver.Answer(config))
    server.on("GET", f"{SUITE}/pods", apiserver.Answer(cluster.listing(POD)))
    server.on("GET", f"{SUITE}/pods/koord-manager-1/log", apiserver.Answer({"line": f"Authorization: Bearer {SECRET}"}))
    server.on("GET", f"{SUITE}/events", apiserver.Answer(cluster.forbidden("events"), 403))


def bundle(tmp_path, answers, *flags):
    """Run the command against a server in another thread; return the exit code and the file."""
    file = tmp_path / "out.tgz"

    async def serve():
        async with apiserver.running() as server:
            answers(server)
            config = tmp_path / "kubeconfig"
            config.write_text(
                json.dumps(
                    {
                        "clusters": [{"name": "c", "cluster": {"server": server.url}}],
                        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
                        "users": [{"name": "u", "user": {"token": "t"}}],
                        "current-context": "x",
                    }
                )
            )
            words = ["bundle", "--kubeconfig", str(config), "-f", str(file), *flags]
            code = await asyncio.to_thread(koordctl.main, words)
            return code, {(each.path) for each in server.requests}

    return *asyncio.run(serve()), file


def parts(file):
    with tarfile.open(file) as found:
        return {each.name.partition("/")[2]: found.extractfile(each).read().decode() for each in found.getmembers()}


def test_has_the_parts_and_no_planted_secret(tmp_path, capsys):
    code, asked, file = bundle(tmp_path, routes)
    assert code == 0
    found = parts(file)
    assert {"nodes.jsonl", "nodemetrics.jsonl", "configmaps/slo-controller-config.json"} <= found.keys()
    assert {"logs/koord-manager-1-manager.log", "logs/koord-manager-1-manager-previous.log"} <= found.keys()
    assert json.loads(found["nodemetrics.jsonl"])["metadata"]["name"] == "worker-1"
    assert [name for name, content in found.items() if SECRET in content] == []
    assert not any("secrets" in path for path in asked)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    shown = capsys.readouterr()
    assert "secrets are taken out" in shown.out
    assert SECRET not in shown.out + shown.err


def test_what_could_not_be_read_is_written_into_the_bundle(tmp_path, capsys):
    _, _, file = bundle(tmp_path, routes)
    missing = parts(file)["missing.txt"]
    assert "events.jsonl: GET" in missing
    assert "resources: [events]" in missing
    assert "cannot run kubectl" in missing
    assert f"not in it: {missing.splitlines()[0]}" in capsys.readouterr().err


@pytest.mark.parametrize("status", [200, 201, 503])
def test_the_pages_of_a_pod_are_in_it_without_secrets_and_a_status_that_is_no_page_is_named(
    tmp_path, monkeypatch, status
):
    page = f'koord_up 1\nlog "Authorization: Bearer {SECRET}"\n'.encode()
    fake_kubectl.install(tmp_path, monkeypatch, fake_kubectl.serving(page, status))
    _, _, file = bundle(tmp_path, routes)
    found, name = parts(file), "pages/koord-manager-1-metrics.txt"
    assert (name in found) == (status == 200)
    assert (f"{name}: status {status}\n" in found["missing.txt"]) == (status != 200)
    if status == 200:
        assert found[name].startswith("koord_up 1\n")
        assert SECRET not in found[name]


def test_what_is_too_much_is_named(tmp_path, monkeypatch):
    def many(server):
        named = [{**POD, "metadata": {**POD["metadata"], "name": f"koord-manager-{number}"}} for number in range(5)]
        server.on("GET", f"{SUITE}/pods", apiserver.Answer(cluster.listing(*named)))
        server.on("GET", "/api/v1/nodes", apiserver.Answer(cluster.listing(cluster.node("a"), cluster.node("b"))))

    monkeypatch.setattr(command, "MOST_OTHERS", 2)
    line = len(json.dumps(cluster.node("a"))) + 1
    monkeypatch.setattr(command, "LARGEST_FILE_BYTES", line + 1)
    _, _, file = bundle(tmp_path, many)
    found = parts(file)
    assert [json.loads(line)["metadata"]["name"] for line in found["nodes.jsonl"].splitlines()] == ["a"]
    missing = found["missing.txt"].splitlines()
    assert "nodes.jsonl: only the first 1 objects" in missing
    assert "logs and metrics of 3 pods of koord-manager: only 2 are read" in missing
    assert not [line for line in missing if line.startswith("logs and metrics of") and "koordlet" in line]


@pytest.mark.parametrize("output", ["table", "wide", "json", "yaml", "csv", "name"])
def test_without_any_right_no_file_is_left(tmp_path, output, capsys):
    code, _, file = bundle(tmp_path, lambda server: None, "-o", output)
    assert code == 3
    assert not file.exists()


NOW = dt.datetime.fromisoformat(cluster.NOW)


@pytest.fixture(autouse=True)
def alone(monkeypatch, tmp_path):
    """Let the caller have no kubectl, and an empty folder."""
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setattr(clock, "utc_now", lambda: NOW)


def bundle_of(kubeconfig, *words):
    return koordctl.main(["bundle", "--kubeconfig", str(kubeconfig), *words])


def members(path):
    with tarfile.open(path) as found:
        return found.getmembers()


def test_without_a_name_the_file_has_the_time_and_is_in_the_current_folder(tmp_path, capsys):
    with kubeconfig_of(tmp_path, **healthy()) as kubeconfig:
        assert bundle_of(kubeconfig, "-o", "name") == 0
    (file,) = (tmp_path / "here").iterdir()
    assert file.name == "koord-bundle-20261121-100030.tgz"
    assert capsys.readouterr().out == f"file/{file.name}\n"
    assert {each.mtime for each in members(file)} == {int(NOW.timestamp())}
    assert {each.mode for each in members(file)} == {0o600}


@pytest.mark.parametrize("name", ["there.tgz", "absent/new.tgz", "there.tgz/new.tgz"])
def test_a_name_that_cannot_be_made_is_wrong_usage_before_the_cluster_is_read(tmp_path, capsys, name):
    (tmp_path / "there.tgz").write_text("kept")
    file = tmp_path / name
    assert bundle_of(tmp_path / "no-kubeconfig", "-f", str(file)) == 2
    assert capsys.readouterr().err == f"--file {file}: want a new file in a folder that exists\n"
    assert bundle_of(tmp_path / "no-kubeconfig", "-f", str(tmp_path / "new.tgz")) == 3
    assert not (tmp_path / "new.tgz").exists()
    assert (tmp_path / "there.tgz").read_text() == "kept"


def content_of(path):
    with tarfile.open(path) as found:
        return {each.name.removeprefix("koord-bundle/"): found.extractfile(each).read() for each in found.getmembers()}


@pytest.mark.parametrize(
    ("largest", "most", "kept"), [(12, 100, b"second\nthird"), (11, 100, b"third"), (100, 11, b"third")]
)
def test_of_a_text_that_is_too_large_the_last_whole_lines_are_kept(tmp_path, monkeypatch, largest, most, kept):
    monkeypatch.setattr(command, "LARGEST_FILE_BYTES", largest)
    monkeypatch.setattr(command, "MOST_BYTES", most)
    text = "second\nthird" if largest == 12 else "first\nsecond\nthird"
    with command.Archive(tmp_path / "a.tgz", 7.9) as made:
        made.add("log", text)
    found = content_of(tmp_path / "a.tgz")
    assert found["log"] == kept
    limit = min(largest, most)
    missing = f"log: only the last {limit} of {len(text)} bytes are kept\n" if len(text) > limit else ""
    assert found["missing.txt"].decode() == missing


def test_all_files_together_are_limited_and_an_empty_one_is_left_out(tmp_path, monkeypatch):
    monkeypatch.setattr(command, "MOST_BYTES", 20)
    with command.Archive(tmp_path / "a.tgz", 0.0) as made:
        for name, text in (("a", "x" * 12), ("empty", ""), ("b", "y" * 8), ("c", "z")):
            made.add(name, text)
    assert content_of(tmp_path / "a.tgz") == {
        "a": b"x" * 12, "b": b"y" * 8, "missing.txt": b"c: only the last 0 of 1 bytes are kept\n",
    }  # fmt: skip
    assert made.names == ["a", "b", "missing.txt"]


def test_after_an_error_no_file_is_left(tmp_path):
    class Stopped(Exception):
        pass

    def stopped(*, after_removal):
        with command.Archive(tmp_path / "a.tgz", 0.0) as made:
            made.add("a", "x")
            if after_removal:
                (tmp_path / "a.tgz").unlink()
            raise Stopped

    for after_removal in (False, True):
        with pytest.raises(Stopped):
            stopped(after_removal=after_removal)
        assert not (tmp_path / "a.tgz").exists()


NAMESPACE = "koordinator-system"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
PARTS = ("koordlet", "koord-manager", "koord-scheduler", "koord-admission")


def pod(name, *, ready=True, restarts=0, sidecars=()):
    sides, statuses = ([{"name": item, "restartCount": restarts} for item in names] for names in (sidecars, ["main"]))
    conditions = [{"type": "Initialized", "status": "True"}, {"type": "Ready", "status": str(ready)}]
    return {"metadata": {"name": name}, "status": {"initContainerStatuses": sides, "containerStatuses": statuses,
                                                "conditions": conditions}}  # fmt: skip


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
                    await BundleCollector(
                        api, archive, NAMESPACE, Caller(), lambda *each: reports.append(each)
                    ).collect(["c"])
            return archive, list(server.requests)

    archive, requests = asyncio.run(collect())
    return archive, content_of(tmp_path / "b.tgz"), requests, reports


def test_each_part_has_its_pods_and_the_ports_of_its_pages(tmp_path):
    archive, files, requests, _ = collected(tmp_path, *([pod(f"{part}-1")] for part in PARTS))
    selectors = [each.query["labelSelector"] for each in requests if each.path == PODS]
    assert selectors == [f"app.kubernetes.io/name={part}" for part in PARTS]
    assert [f"pods/{part}.json" in files for part in PARTS] == [True] * 4
    pages = [each.what for each in archive.missing if each.what.startswith("pages of")]
    assert pages == [
        "pages of koordlet-1, port 9316", "pages of koord-manager-1, port 9317",
        "pages of koord-scheduler-1, port 10262", "pages of koord-scheduler-1, port 10263",
        "pages of koord-admission-1, port 9318",
    ]  # fmt: skip
    assert files["missing.txt"].decode().splitlines() == [f"{each.what}: {each.why}" for each in archive.missing]
    wanted = {"workloads/koordlet.json", "workloads/koord-manager.json", "workloads/koord-scheduler.json",
              "workloads/koord-admission.json", "admission/mutatingwebhookconfigurations.jsonl",
              "leases/koord-manager.json", "leases/koord-scheduler.json", "configmaps/c.json", "events.jsonl",
              "nodes.jsonl", "nodemetrics.jsonl"}  # fmt: skip
    assert wanted <= {each.what for each in archive.missing}


def test_a_container_that_was_restarted_has_two_logs_without_secrets(tmp_path):
    pods = [pod("m-1", restarts=2, sidecars=("side",)), pod("m-2")]
    _, files, requests, _ = collected(tmp_path, [], pods, [], [])
    logs = {name.removeprefix("logs/"): text.decode() for name, text in files.items() if name.startswith("logs/")}
    assert logs == {
        "m-1-main.log": "password=REMOVED\nof m-1\n", "m-1-main-previous.log": "password=REMOVED\nof m-1\n",
        "m-1-side.log": "password=REMOVED\nof m-1\n", "m-1-side-previous.log": "password=REMOVED\nof m-1\n",
        "m-2-main.log": "password=REMOVED\nof m-2\n",
    }  # fmt: skip
    asked = [each.query for each in requests if each.path.endswith("/log")]
    assert [(each["container"], each.get("previous")) for each in asked] == [
        ("side", None), ("side", "true"), ("main", None), ("main", "true"), ("main", None),
    ]  # fmt: skip
    assert {each["timestamps"] for each in asked} == {"true"}
    assert all(int(each["tailLines"]) > 0 and int(each["limitBytes"]) > 0 for each in asked)


@pytest.mark.parametrize(("part", "most"), [(0, 5), (1, 10), (2, 10)])
@pytest.mark.parametrize("more", [0, 2])
def test_of_many_pods_those_that_are_not_ready_are_read_first(tmp_path, part, most, more):
    pods = [pod(f"p-{number}", ready=number < most + more - 1) for number in range(most + more)]
    archive, files, _, _ = collected(tmp_path, *(pods if number == part else [] for number in range(len(PARTS))))
    logs = [name.removeprefix("logs/").removesuffix("-main.log") for name in files if name.startswith("logs/")]
    assert logs == [f"p-{most + more - 1}", *(f"p-{number}" for number in range(most - 1))]
    named = [each[:2] for each in archive.missing if each.what.startswith("logs and metrics of")]
    assert named == ([(f"logs and metrics of 2 pods of {PARTS[part]}", f"only {most} are read")] if more else [])


def test_the_decision_records_of_a_scheduler_are_pages_of_their_own(tmp_path, monkeypatch):
    fake_kubectl.install(tmp_path, monkeypatch, fake_kubectl.SERVES)
    _, files, _, _ = collected(tmp_path, [], [], [pod("s-1")], [])
    pages = {name.removeprefix("pages/s-1"): text.decode() for name, text in files.items() if name.startswith("pages/")}
    assert pages == {
        "-metrics.txt": "/metrics", "-debug-pods.txt": "/debug/pods/", "-debug-nodes.txt": "/debug/nodes/",
        "-debug-config.txt": "/debug/config",
    }  # fmt: skip


JWT = "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJhIn0.c2lnbmF0dXJl"

PLANTED = [
    {"spec": {"containers": [{"env": [{"name": "INFLUX", "value": SECRET}]}]}},
    {"metadata": {"annotations": {"kubectl.kubernetes.io/last-applied-configuration": f'{{"value":"{SECRET}"}}'}}},
    {"metadata": {"managedFields": [{"x": SECRET}]}},
    {"spec": {"containers": [{"args": [f"--influxdb-token={SECRET}"]}]}},
    {"spec": {"containers": [{"command": ["sh", "-c", f"PASSWORD={SECRET} run"]}]}},
    {"data": {"config": f'{{"provider": {{"token": "{SECRET}", "url": "x"}}}}'}},
    {"data": {"config.yaml": f"provider:\n  password: {SECRET}\n"}},
    {"data": {"url": f"https://user:{SECRET}@influx:8086/x"}},
    {"message": f"401 for Authorization: Bearer {SECRET}"},
    {"token": SECRET},
    {"nested": [{"clientSecret": SECRET}]},
]


@pytest.mark.parametrize("planted", PLANTED, ids=lambda each: json.dumps(each)[:40])
def test_a_planted_secret_is_taken_out_of_an_object(planted):
    assert SECRET in json.dumps(planted)
    assert SECRET not in json.dumps(command.scrubbed_item(planted))


@pytest.mark.parametrize(
    "line",
    [
        f"Authorization: Bearer {SECRET}",
        f"requested with token={SECRET}&x=1",
        f'{{"password": "{SECRET}"}}',
        f"using https://admin:{SECRET}@proxy:3128",
        f"api-key: {SECRET}",
        f"-----BEGIN PRIVATE KEY-----\n{SECRET}\n-----END PRIVATE KEY-----",
        f"-----BEGIN PRIVATE KEY-----\n{SECRET}",
    ],
)
def test_a_planted_secret_is_taken_out_of_a_log(line):
    assert SECRET not in command.scrubbed(f"before\n{line}\nafter")


def test_tokens_of_service_accounts_are_taken_out():
    assert JWT not in command.scrubbed(f"sent {JWT} to it")


def test_what_an_issue_needs_stays():
    pod = {
        "metadata": {
            "name": "koordlet-x",
            "annotations": {"koordinator.sh/mid-resource-status": '{"reason":"Shadow"}'},
        },
        "spec": {
            "containers": [
                {
                    "args": ["run", "--http-port=9316"],
                    "env": [{"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "influx", "key": "t"}}}],
                }
            ]
        },
        "status": {"usage": {"cpu": "3", "memory": "4Gi"}, "ready": True, "count": 5},
    }
    assert command.scrubbed_item(pod) == pod
    log = "2026-11-24T10:00:00Z WARNING GET https://10.0.0.1:443/api/v1/nodes: 403 Forbidden: cannot list nodes"
    assert command.scrubbed(log) == log


def test_a_long_hostile_text_takes_no_long_time():
    for part in ("token", "a://", "eyJ-", "eyJ.", "-", "password=", 'token="', "bearer ", "-----BEGIN A-----", " "):
        command.scrubbed(part * 50_000)
