"""`koordctl config apply`: what is written, what is not, and with which exit code."""

import asyncio
import io
import json

import pytest
import yaml

from koordctl import __main__ as koordctl
from tests.fakes import cluster

NAMESPACE, NAME, LAST_GOOD = "koordinator-system", "slo-controller-config", "koord-manager-last-good-config"
KEY = "colocation-config"
BEFORE, WANTED = '{"enable": true}', '{"enable": true, "midCPUThresholdPercent": 50}'


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def apply(tmp_path, capsys, monkeypatch):
    """Return what applies a document to a cluster in memory, and returns exit code, ConfigMap, output and errors."""

    async def run(expected, *words, before=BEFORE, answered="y", **refusals):
        async with cluster.running() as server:
            metadata = {"labels": {"managed-by": "Helm"}, "annotations": {"meta.helm.sh/release-name": "a", "b": "c"}}
            server.add("configmaps", {"metadata": {"name": LAST_GOOD, **metadata}, "data": {KEY: BEFORE}}, NAMESPACE)
            if before is not None:
                server.add("configmaps", {"metadata": {"name": NAME}, "data": {KEY: before, "other": "1"}}, NAMESPACE)
            for method, refusal in refusals.items():
                server.refuse[method, "configmaps"] = refusal
            file, kubeconfig = tmp_path / "wanted.json", tmp_path / "kubeconfig"
            file.write_text(expected)
            context = {"name": "x", "context": {"cluster": "c", "user": "u"}}
            clusters = [{"name": "c", "cluster": {"server": server.connection().server}}]
            users = [{"name": "u", "user": {"token": "t"}}]
            text = {"clusters": clusters, "contexts": [context], "users": users, "current-context": "x"}
            kubeconfig.write_text(yaml.safe_dump(text))
            monkeypatch.setattr("sys.stdin", Terminal(f"{answered}\n"))
            argv = ["config", "apply", str(file), "--kubeconfig", str(kubeconfig), *words]
            run.writes = server.writes
            code = await asyncio.to_thread(koordctl.main, argv)
            stored = {item["metadata"]["name"]: item for item in server.all("configmaps")}.get(NAME)
            return code, stored, *capsys.readouterr()

    return run


@pytest.mark.parametrize(("answered", "code"), [("y", 0), ("n", 1)])
async def test_the_difference_is_shown_and_after_yes_applied(apply, answered, code):
    assert (await apply(WANTED, answered=answered))[0] == code
    status, stored, out, err = await apply(WANTED, answered=answered)
    assert (status, stored["data"]) == (code, {KEY: BEFORE if code else WANTED, "other": "1"})
    assert "Mid CPU" in err
    assert "midCPUThresholdPercent" in out
    assert (f"the document before, which undoes it:\n{BEFORE}" in out) is (code == 0)


@pytest.mark.parametrize("text", [WANTED, json.dumps({"kind": "ConfigMap", "data": {KEY: WANTED}})])
async def test_a_dry_run_shows_it_and_writes_nothing(apply, text):
    code, stored, out, _ = await apply(text, "--dry-run", "-o", "json")
    assert (code, stored["data"][KEY]) == (0, BEFORE)
    shown = json.loads(out)
    assert (shown["kind"], shown["result"], shown["before"]) == ("ConfigApply", "would be applied", BEFORE)
    assert any("Mid CPU" in effect for effect in shown["effects"])


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("{", "DOCUMENT_REFUSED"),
        ('{"enable": true, "nodeConfigs": [{"midCPUThresholdPercent": 150}]}', "LAYER_IGNORED"),
    ],
)
async def test_what_the_manager_would_not_use_is_not_written(apply, text, seen):
    code, stored, out, _ = await apply(text, "--yes", "-o", "json")
    assert (code, stored["data"][KEY]) == (1, BEFORE)
    assert seen in out


@pytest.mark.parametrize("words", [["check"], ["diff"], ["apply", "--yes"]])
@pytest.mark.parametrize("text", ["", " \n", "{}", json.dumps({"kind": "ConfigMap", "data": {KEY: ""}})])
def test_a_document_without_a_key_is_no_order(tmp_path, capsys, words, text):
    file = tmp_path / "empty.json"
    file.write_text(text)
    assert koordctl.main(["config", words[0], str(file), *words[1:]]) == 2
    assert (
        "the document sets no key, which changes nothing; colocation-config: '{\"enable\": false}'"
        in capsys.readouterr().err
    )


async def test_the_same_document_is_not_written_again(apply):
    code, _, out, _ = await apply(BEFORE, "--yes", "-o", "json", PATCH=cluster.Refusal(500, "InternalError"))
    assert (code, json.loads(out)["result"]) == (0, "unchanged")


@pytest.mark.parametrize(
    ("refusal", "code", "seen"),
    [
        (cluster.Refusal(409, "Conflict"), 1, "run this again"),
        (cluster.Refusal(422, "Invalid", message="the webhook says no"), 1, "the webhook says no"),
        (cluster.Refusal(403, "Forbidden"), 3, "Forbidden"),
    ],
)
async def test_a_write_that_is_refused_is_named(apply, refusal, code, seen):
    status, stored, out, err = await apply(WANTED, "--yes", PATCH=refusal)
    assert (status, stored["data"][KEY]) == (code, BEFORE)
    assert seen in out + err


async def test_a_deleted_config_map_is_created_as_part_of_its_release(apply):
    code, stored, _, _ = await apply(WANTED, "--yes", before=None)
    assert (code, stored["data"]) == (0, {KEY: WANTED})
    assert stored["metadata"]["labels"] == {"managed-by": "Helm"}
    assert stored["metadata"]["annotations"] == {"meta.helm.sh/release-name": "a"}


async def test_the_version_that_was_read_is_replaced_and_no_other(apply):
    _, stored, _, _ = await apply(WANTED, "--yes")
    ((_, path, body),) = apply.writes
    assert path.endswith(f"/{NAME}")
    assert int(body["metadata"]["resourceVersion"]) < int(stored["metadata"]["resourceVersion"])
