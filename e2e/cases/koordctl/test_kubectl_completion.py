"""`kubectl koord` and its completion, by the real kubectl: commands, flags, values, and names of a real API server."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tools.localcluster import standalone_control_plane
from tools.localcluster.apiserver_requests import NODES

NAMES = ("worker-1", "worker-2", "other")
WITHOUT_FILES, WITH_FILES = ":4", ":0"
"""Directives at the end of an answer."""

Kubectl = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="module")
def kubectl() -> Iterator[Kubectl]:
    """Return a function that calls kubectl, which finds the programs of this environment on its PATH."""
    with standalone_control_plane.running() as plane:
        with contextlib.closing(plane.connect()) as api:
            for name in NAMES:
                api.send("POST", NODES, {"metadata": {"name": name}})
            api.send("POST", "/api/v1/namespaces", {"metadata": {"name": "shop"}})
            pod = {"metadata": {"name": "web-0"}, "spec": {"containers": [{"name": "c", "image": "none"}]}}
            api.send("POST", "/api/v1/namespaces/shop/pods", pod)
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        environment = {**os.environ, "PATH": path, "KUBECONFIG": str(plane.kubeconfig)}

        def call(*words: str) -> subprocess.CompletedProcess[str]:
            argv = [str(plane.binaries / "kubectl"), *words]
            return subprocess.run(argv, env=environment, capture_output=True, text=True, check=False, timeout=120)

        yield call


@pytest.mark.parametrize(
    ("words", "found", "directive"),
    [
        (("sta",), ["status"], WITHOUT_FILES),
        (("explain", ""), ["node", "pod", "config"], WITHOUT_FILES),
        (("explain", "node", "wor"), ["worker-1", "worker-2"], WITHOUT_FILES),
        (("explain", "pod", "sh"), ["shop/"], WITHOUT_FILES),
        (("explain", "pod", "shop/"), ["shop/web-0"], WITHOUT_FILES),
        (("top", "pods", "--node", "o"), ["other"], WITHOUT_FILES),
        (("top", "nodes", "--output", "j"), ["json"], WITHOUT_FILES),
        (("config", "diff", "--pre"), ["--preset"], WITHOUT_FILES),
        (("config", "check", ""), [], WITH_FILES),
    ],
)
def test_kubectl_completes_its_plugin(
    kubectl: Kubectl, words: tuple[str, ...], found: list[str], directive: str
) -> None:
    ended = kubectl("__complete", "koord", *words)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.splitlines() == [*found, directive]


def test_kubectl_finds_the_plugin_and_its_exit_code(kubectl: Kubectl) -> None:
    assert "kubectl-koord" in kubectl("plugin", "list").stdout
    assert kubectl("koord", "top", "nodes", "--output", "name").stdout.split() == sorted(
        f"node/{name}" for name in NAMES
    )
    assert kubectl("koord", "explain", "node", "absent").returncode == 1
    assert kubectl("koord", "--help").stdout.startswith("Usage: kubectl koord ")
