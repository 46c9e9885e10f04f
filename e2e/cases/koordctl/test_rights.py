"""Each command as an administrator, with the chart's role koord-viewer, and without any right, on a real apiserver."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
import yaml

from e2e.support import chart_rendering
from e2e.support.command_lines import Output, run
from tools.localcluster.standalone_control_plane import ControlPlane

NODE = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}}
IDENTITIES = ("", "viewer", "stranger")
CODES = {
    ("status",): (0, 0, 3),
    ("check",): (1, 1, 3),  # nothing of the suite runs here
    ("top", "nodes"): (0, 0, 3),
    ("gain",): (0, 0, 3),
    ("check", "--pre"): (0, 1, 1),
    ("reset-prediction", "n1", "--yes"): (1, 1, 3),  # there is no NodeMetric
    ("uninstall", "--dry-run"): (0, 0, 3),
}
"""Exit codes of the administrator, the viewer, and the user without any right."""


@pytest.fixture(scope="module")
def plane(shared_plane: ControlPlane) -> ControlPlane:
    values = {"viewer": {"subjects": [{"kind": "User", "name": "viewer"}]}}
    for document in [NODE, *chart_rendering.rendered(shared_plane.binaries, values, "viewer-roles")]:
        where = document["metadata"].get("namespace", "default")
        words = ["apply", f"--kubeconfig={shared_plane.kubeconfig}", f"--namespace={where}", "--filename=-"]
        program = str(shared_plane.binaries / "kubectl")
        subprocess.run([program, *words], input=yaml.safe_dump(document), text=True, check=True)
    return shared_plane


def koordctl(plane: ControlPlane, identity: str, *words: str) -> Output:
    who = [f"--as={identity}"] if identity else []
    return run("koordctl", *words, f"--kubeconfig={plane.kubeconfig}", *who, within_seconds=120)


@pytest.mark.parametrize("words", CODES, ids=" ".join)
def test_the_exit_code_and_what_is_named(plane: ControlPlane, words: tuple[str, ...]) -> None:
    found = [koordctl(plane, identity, *words) for identity in IDENTITIES]
    assert tuple(each.code for each in found) == CODES[words], [each.text for each in found]
    assert not any("Traceback" in each.text for each in found)
    if CODES[words][2] == 3:
        assert "403 Forbidden" in found[2].text


def test_the_viewer_lacks_no_right_that_check_wants(plane: ControlPlane) -> None:
    document = json.loads(koordctl(plane, "viewer", "check", "-o", "json").text)
    rights = next(each for each in document["checks"] if each["code"] == "Permissions")
    assert rights["verdict"] == "passed", rights


def test_a_bundle_names_what_is_missing(plane: ControlPlane, tmp_path: Path) -> None:
    for identity, code in (("viewer", 0), ("stranger", 3)):
        file = tmp_path / f"{identity}.tgz"
        assert koordctl(plane, identity, "bundle", "-f", str(file)).code == code
        assert file.exists() is (code == 0)
