"""Errors that a newcomer is likely to see: each is one clear line with the fix, and without a traceback.

The missing CRD has a case of its own (test_crd_missing); broken JSON in the ConfigMap is tested with the other wrong
edits (test_config_reaches_agents_and_nodes).
"""

from __future__ import annotations

import json
import shutil
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.support import command_lines
from e2e.support.command_lines import REPOSITORY
from tools.localcluster.access import Cluster
from tools.localcluster.host import commands

AGENT = ("koordlet", "run", "--node-name=unknown", "--state-dir=", "--http-port=0")
MANAGER = ("manager", "run", "--http-port=0")
EXTENDER = ("scheduler_plugin", "run", "--extender-port=0", "--http-port=0", "--debug-port=0")
PROGRAMS = [
    pytest.param(AGENT, id="koordlet"),
    pytest.param(MANAGER, id="manager"),
    pytest.param(EXTENDER, id="extender"),
]
UNPRIVILEGED_UID = 65534
AS_UNPRIVILEGED = ("unshare", "--user", f"--map-user={UNPRIVILEGED_UID}")


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Copy the tools to a new checkout, which has no record of a running cluster."""
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(REPOSITORY / "tools", tmp_path / "tools", ignore=ignored)
    return tmp_path


@pytest.fixture
def port_in_use() -> Iterator[int]:
    with socket.socket() as taken:
        taken.bind(("0.0.0.0", 0))
        taken.listen()
        yield taken.getsockname()[1]


def test_a_local_cluster_without_root(checkout: Path) -> None:
    if not commands.succeeds([*AS_UNPRIVILEGED, "true"]):
        pytest.skip("this machine allows no user namespaces, which the test needs for an unprivileged user")
    output = command_lines.run("tools.localcluster", "up", "--provider=local", folder=checkout, wrapper=AS_UNPRIVILEGED)
    assert output.code == 1
    output.line_with("needs root", "sudo", "--provider")


def test_kind_without_docker(checkout: Path, tmp_path: Path) -> None:
    no_programs = {"PATH": str(tmp_path)}
    output = command_lines.run("tools.localcluster", "up", "--provider=kind", folder=checkout, environment=no_programs)
    assert output.code == 1
    output.line_with("Docker", "--provider local")


def test_a_local_cluster_whose_ports_are_in_use(checkout: Path, cluster: Cluster) -> None:
    """Use the ports of the cluster under test."""
    if cluster.provider not in ("local", "nodes"):
        pytest.skip("no such cluster listens on this machine")
    up = ("tools.localcluster", "up", f"--provider={cluster.provider}")
    output = command_lines.run(*up, folder=checkout, within_seconds=30)
    assert output.code == 1
    port = {"local": 6443, "nodes": 6444}[cluster.provider]
    output.line_with(f"port {port} (kube-apiserver)", "kube-apiserver (pid", "python -m tools.localcluster down")


def test_no_cluster_is_up(checkout: Path) -> None:
    output = command_lines.run("tools.localcluster", "status", folder=checkout)
    assert output.code == 1
    output.line_with("no cluster is up", "python -m tools.localcluster up")


@pytest.mark.parametrize("program", [AGENT[:-1], MANAGER[:-1]], ids=["koordlet", "manager"])
def test_the_port_of_a_program_is_in_use(program: tuple[str, ...], port_in_use: int, dead_kubeconfig: Path) -> None:
    words = (f"--http-port={port_in_use}", f"--kubeconfig={dead_kubeconfig}")
    output = command_lines.run(*program, *words)
    assert output.code == 1
    output.line_with(f":{port_in_use}", "Address already in use", "choose another port")


def test_the_port_of_the_extender_is_in_use(port_in_use: int, dead_kubeconfig: Path) -> None:
    words = (f"--extender-port={port_in_use}", f"--kubeconfig={dead_kubeconfig}")
    output = command_lines.run("scheduler_plugin", "run", "--http-port=0", "--debug-port=0", *words)
    assert output.code == 1
    output.line_with(f":{port_in_use}", "already in use", "set another --extender-port")


@pytest.fixture
def dead_kubeconfig(tmp_path: Path) -> Path:
    """Write the kubeconfig of an apiserver that does not exist."""
    return _kubeconfig(tmp_path / "dead", {"server": "https://127.0.0.1:1"}, {"token": "secret"})


def _kubeconfig(file: Path, cluster: dict[str, str], user: dict[str, str]) -> Path:
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "test",
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
        "clusters": [{"name": "test", "cluster": cluster}],
        "users": [{"name": "test", "user": user}],
    }
    file.write_text(json.dumps(document))
    return file


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_kubeconfig_that_does_not_exist(program: tuple[str, ...], tmp_path: Path) -> None:
    output = command_lines.run(*program, f"--kubeconfig={tmp_path / 'nowhere'}")
    assert output.code == 1
    output.line_with("kubeconfig", str(tmp_path / "nowhere"), "No such file")


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_kubeconfig_that_is_not_a_kubeconfig(program: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "notes").write_text("kubectl get pods\n")
    output = command_lines.run(*program, f"--kubeconfig={tmp_path / 'notes'}")
    assert output.code == 1
    output.line_with("kubeconfig", str(tmp_path / "notes"))


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_kubeconfig_of_a_missing_apiserver(program: tuple[str, ...], dead_kubeconfig: Path) -> None:
    output = command_lines.run(*program, f"--kubeconfig={dead_kubeconfig}", until="cannot reach", within_seconds=30)
    output.line_with("cannot reach https://127.0.0.1:1", str(dead_kubeconfig))


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_kubeconfig_with_the_wrong_authority(program: tuple[str, ...], cluster: Cluster, tmp_path: Path) -> None:
    real = json.loads(cluster.run("config", "view", "--raw", "--minify", "--output=json"))
    server = real["clusters"][0]["cluster"]["server"]
    kubeconfig = _kubeconfig(tmp_path / "unsigned", {"server": server}, {"token": "secret"})
    output = command_lines.run(*program, f"--kubeconfig={kubeconfig}", until="certificate", within_seconds=30)
    output.line_with(server, "certificate", str(kubeconfig))


@pytest.fixture(scope="module")
def powerless(cluster: Cluster, namespace: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write the kubeconfig of a service account without any role."""
    real = json.loads(cluster.run("config", "view", "--raw", "--minify", "--output=json"))["clusters"][0]["cluster"]
    token = cluster.run("create", "token", "default", "--namespace", namespace).strip()
    return _kubeconfig(tmp_path_factory.mktemp("powerless") / "kubeconfig", real, {"token": token})


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_service_account_without_rbac(program: tuple[str, ...], powerless: Path, namespace: str) -> None:
    output = command_lines.run(*program, f"--kubeconfig={powerless}", until="403 Forbidden", within_seconds=30)
    output.line_with("403 Forbidden", f"system:serviceaccount:{namespace}:default", "grant it by RBAC", "verbs: [")


def test_a_state_folder_that_cannot_be_written(dead_kubeconfig: Path) -> None:
    words = ("--state-dir=/proc/koordlet", "--checkpoint-interval-seconds=10", f"--kubeconfig={dead_kubeconfig}")
    output = command_lines.run(*AGENT, *words, until="cannot write", within_seconds=50)
    output.line_with("cannot write /proc/koordlet", "kept in memory only", "create the folder or mount it")


def test_an_agent_without_a_node_name() -> None:
    output = command_lines.run("koordlet", "run", environment={"KOORDLET_NODE_NAME": ""})
    assert output.code == 2
    output.line_with("node-name is not set", "--node-name", "spec.nodeName")


def test_a_setting_that_is_out_of_range() -> None:
    output = command_lines.run(*AGENT, "--checkpoint-interval-seconds=1")
    assert output.code == 2
    output.line_with("checkpoint-interval-seconds", "1", "10")
