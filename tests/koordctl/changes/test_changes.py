"""Commands that change the cluster: what they would do, whether they may, and that they ask."""

import datetime as dt
import io

import pytest

from apiserver_client import errors, session
from fleet.reading import Reader
from koordctl import __main__ as koordctl
from koordctl.changes import reset_prediction, uninstall
from tests.fakes import cluster
from tests.koordctl.parsing import parsed

pytestmark = pytest.mark.slow

NAMESPACE = "koordinator-system"
NOW = dt.datetime(2026, 11, 21, 12, tzinfo=dt.UTC)
RESET = "koordinator.sh/reset-prediction"


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
async def server():
    async with cluster.running() as server:
        mid = {"cpu": "4", "memory": "8Gi", "kubernetes.io/mid-cpu": "500"}
        server.add("nodes", {"metadata": {"name": "n1"}, "status": {"allocatable": mid, "capacity": mid}})
        server.add("nodes", {"metadata": {"name": "n2"}, "status": {"allocatable": {}, "capacity": {}}})
        prediction = {"predictor": "calibrated", "warmPods": 7}
        server.add("nodemetrics", {"metadata": {"name": "n1"}, "status": {"prediction": prediction}})
        spec = {"replicas": 1, "selector": {"matchLabels": {"app.kubernetes.io/name": "koord-manager"}}}
        metadata = {"name": "a-koord-manager", "labels": {"app.kubernetes.io/name": "koord-manager"}}
        server.add("deployments", {"metadata": metadata, "spec": spec}, NAMESPACE)
        yield server


async def answer_of(server, module, *words):
    is_reset = module is reset_prediction
    async with session.connect(server.connection(), user_agent="test/1") as api:
        act = reset_prediction._reset if is_reset else uninstall._uninstall
        return await act(Reader(api, NOW), parsed(["reset-prediction" if is_reset else "uninstall", *words]))


def stdin(monkeypatch, answered):
    monkeypatch.setattr("sys.stdin", Terminal(f"{answered}\n"))


@pytest.mark.parametrize(("answered", "code"), [("y", 0), ("n", 1)])
async def test_a_reset_asks_on_a_terminal(server, monkeypatch, answered, code, capsys):
    stdin(monkeypatch, answered)
    answer = await answer_of(server, reset_prediction, "n1")
    assert answer.exit_code == code
    assert "forgets its history (7 pods with a history by calibrated)" in capsys.readouterr().err
    annotations = server.get("nodemetrics", "n1")["metadata"].get("annotations") or {}
    assert annotations.get(RESET) == ("2026-11-21T12:00:00Z" if code == 0 else None)


async def test_a_reset_without_a_question_changes_the_node_metric_only(server):
    await answer_of(server, reset_prediction, "n1", "--yes")
    ((method, path, body),) = server.writes
    assert (method, path.rpartition("/")[2]) == ("PATCH", "n1")
    assert body == {"metadata": {"annotations": {RESET: "2026-11-21T12:00:00Z"}}}


@pytest.mark.parametrize(
    "words", [["reset-prediction", "n1"], ["uninstall"], ["config", "apply", "examples/colocation-config.yaml"]]
)
def test_without_a_terminal_it_wants_yes_before_it_connects(words, monkeypatch, capsys, tmp_path):
    monkeypatch.setattr("sys.stdin", io.StringIO("y\n"))
    assert koordctl.main([*words, "--kubeconfig", str(tmp_path / "none")]) == 2
    assert "want --yes" in capsys.readouterr().err
    assert koordctl.main([*words, "--yes", "--kubeconfig", str(tmp_path / "none")]) == 3


async def test_a_node_without_a_node_metric_is_no_success(server):
    with pytest.raises(errors.NotFound):
        await answer_of(server, reset_prediction, "n2", "--yes")


@pytest.mark.parametrize(("words", "code"), [((), 1), (("--dry-run",), 0)])
async def test_an_uninstallation_names_what_is_left(server, monkeypatch, words, code):
    stdin(monkeypatch, "n")
    answer = await answer_of(server, uninstall, *words)
    assert answer.exit_code == code
    assert answer.data.objects == {
        "Deployments to stop": ["a-koord-manager"],
        "nodes with Mid resources or annotations": ["n1"],
        "NodeMetrics": ["n1"],
        "ConfigMaps with the history of workloads": [],
        "Leases": [],
    }
    assert server.writes == []


async def test_an_uninstallation_takes_away_what_it_named(server):
    answer = await answer_of(server, uninstall, "--yes")
    assert (answer.exit_code, answer.data.result) == (0, "removed")
    assert "kubernetes.io/mid-cpu" not in server.get("nodes", "n1")["status"]["allocatable"]
    assert server.all("nodemetrics") == []
    again = await answer_of(server, uninstall, "--dry-run")
    assert [each for each in again.data.objects.values() if each] == [["a-koord-manager"]]


async def test_an_uninstallation_in_an_empty_cluster_is_done(server, capsys):
    server.remove("deployments", "a-koord-manager", NAMESPACE)
    server.remove("nodemetrics", "n1")
    server.remove("nodes", "n1")
    assert (await answer_of(server, uninstall, "--yes")).exit_code == 0
    assert "done: no Mid resource" in capsys.readouterr().err
