"""The commands for operators as `python -m manager` runs them: settings, connection, log and exit code."""

import json
import logging
import runpy
import sys

import pytest

from manager import __main__ as manager
from manager.cli import lowered_limits
from tests.fakes import cluster
from tests.manager import in_process
from tests.manager.cli.test_lowered_limits import limits_of, lowered_pod

STATUS_KEY = "koordinator.sh/mid-resource-status"


@pytest.fixture(autouse=True)
def _logger_of_kopf():
    """Undo what the start of the manager does to it."""
    logger = logging.getLogger("kopf")
    level, handlers = logger.level, logger.handlers[:]
    yield
    logger.setLevel(level)
    logger.handlers[:] = handlers


@pytest.fixture
def served(monkeypatch):
    monkeypatch.setattr(lowered_limits, "SETTLE_SECONDS", 0.0)
    with in_process.serving(cluster.running()) as made:
        yield made


@pytest.fixture
def kubeconfig(served, tmp_path):
    return f"--kubeconfig={in_process.write_kubeconfig(tmp_path, served.server.url)}"


def logged(capsys):
    """Return the messages of a log in JSON, each with its level."""
    return [(line["level"], line["message"]) for line in map(json.loads, capsys.readouterr().err.splitlines())]


@pytest.mark.parametrize(
    ("command", "prefix", "setting", "wrong"),
    [("restore-limits", "RESTORE_LIMITS", "timeout-seconds", "0"), ("uninstall", "UNINSTALL", "stop-seconds", "0")],
)
def test_a_wrong_setting_is_named_and_ends_a_command_with_2(monkeypatch, capsys, command, prefix, setting, wrong):
    monkeypatch.setenv(f"{prefix}_{setting.replace('-', '_').upper()}", wrong)
    assert manager.main([command]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert setting.replace("-", "_") in line.lower().replace("-", "_")
    assert wrong in line


def test_restore_limits_restores_and_logs_as_its_settings_want(served, kubeconfig, capsys):
    unreadable = lowered_pod("strange")
    unreadable["spec"]["containers"][0]["resources"]["limits"]["cpu"] = "much"
    for pod in (lowered_pod("slow"), unreadable):
        served.call(served.server.add, "pods", pod, "shop")
    arguments = ["restore-limits", kubeconfig, "--log-format=json", "--log-level=warning", "--timeout-seconds=10"]
    assert manager.main(arguments) == 0
    assert limits_of(served.server, "slow") == ["1", "200m"]
    lines = logged(capsys)
    assert {level for level, _ in lines} == {"WARNING"}
    assert all("strange cannot be read" in message for _, message in lines)


def test_uninstall_removes_and_logs_as_its_settings_want(served, kubeconfig, capsys):
    node = {"metadata": {"name": "n1", "annotations": {STATUS_KEY: "{}"}}, "status": {"capacity": {"cpu": "1"}}}
    served.call(served.server.add, "nodes", node)
    served.call(served.server.add, "nodemetrics", {"metadata": {"name": "n1"}})
    wanted = ["--deployments=", "--no-restore-limits", "--timeout-seconds=20", "--log-format=json"]
    assert manager.main(["uninstall", kubeconfig, *wanted]) == 0
    assert served.server.all("nodemetrics") == []
    assert STATUS_KEY not in served.server.get("nodes", "n1")["metadata"].get("annotations", {})
    level, message = logged(capsys)[-1]
    assert (level, message.startswith("done: ")) == ("INFO", True)


def test_a_cluster_that_kopf_cannot_connect_to_ends_the_start_before_anything_else(tmp_path, capsys, closed_port):
    """The port is in use, so that a start would end too, with another error."""
    config = in_process.write_kubeconfig(tmp_path, "https://127.0.0.1:1", **{"tls-server-name": "apiserver"})
    where = ["--http-address=127.0.0.1", f"--http-port={closed_port}", "--log-format=json"]
    assert manager.main(["run", f"--kubeconfig={config}", *where]) == 1
    ((level, message),) = logged(capsys)
    assert level == "ERROR"
    assert "cannot use tls-server-name" in message


def test_its_exit_code_is_that_of_the_process(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["manager", "uninstall", "--kubeconfig=/does/not/exist"])
    monkeypatch.delitem(sys.modules, "manager.__main__")
    with pytest.raises(SystemExit) as ended:
        runpy.run_module("manager", run_name="__main__")
    assert ended.value.code == 2
    assert "/does/not/exist" in capsys.readouterr().err
