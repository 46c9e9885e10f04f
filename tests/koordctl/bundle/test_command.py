"""`koordctl bundle`: what is in the file, what is missing, and that no planted secret is."""

import asyncio
import json
import stat
import tarfile

import pytest

from koordctl import __main__ as koordctl
from koordctl.bundle import archive, collecting
from tests.fakes import apiserver, fake_kubectl
from tests.fleet import cluster

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
    assert not any(SECRET in content for content in found.values())
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

    monkeypatch.setattr(collecting, "MOST_OTHERS", 2)
    line = len(json.dumps(cluster.node("a"))) + 1
    monkeypatch.setattr(archive, "LARGEST_FILE_BYTES", line + 1)
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


def test_a_file_that_exists_is_not_replaced(tmp_path, capsys):
    (tmp_path / "out.tgz").write_text("mine")
    code, _, file = bundle(tmp_path, routes)
    assert code == 2
    assert file.read_text() == "mine"
    assert "want a new file" in capsys.readouterr().err


def test_its_size_is_bounded_and_the_end_of_a_log_is_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(archive, "LARGEST_FILE_BYTES", 1_000)
    monkeypatch.setattr(archive, "MOST_BYTES", 1_500)
    with archive.Archive(tmp_path / "b.tgz", 0.0) as made:
        for name in ("a", "b", "c"):
            made.add(name, "".join(f"line {number}\n" for number in range(500)))
    found = parts(tmp_path / "b.tgz")
    assert found["a"].endswith("line 499\n")
    assert found["a"].startswith("line ")
    assert sum(len(content) for name, content in found.items() if name != "missing.txt") <= 1_500
    assert "a: only the last 1000 of" in found["missing.txt"]
    assert [each.name for each in tmp_path.iterdir()] == ["b.tgz"]
