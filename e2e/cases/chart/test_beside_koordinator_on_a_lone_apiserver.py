"""Each combination of docs/how-to/beside-koordinator.md, by its values, beside the objects of Koordinator's chart."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from e2e.support import upstream_chart
from e2e.support.installation import CHART, RELEASE
from tools.localcluster import standalone_control_plane
from tools.localcluster.content_cache import REPOSITORY
from tools.localcluster.standalone_control_plane import ControlPlane

PAGE = (REPOSITORY / "docs" / "how-to" / "beside-koordinator.md").read_text()
REGISTRY = "--set=global.imageRegistry=registry.example"
SUITE = "koord-suite"
(PREFIX,) = re.findall(r"--set namePrefix=(\S+)", PAGE)
PARTS = ["koord-manager", "koord-scheduler", "koordlet"]


def _values(component: str, namespace: str = SUITE) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the values for Koordinator's chart and for that of the suite, from the section of a component."""
    (section,) = re.findall(rf"^## The {component}\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL)
    theirs, suite, *there = (yaml.safe_load(block) for block in re.findall(r"```yaml\n(.*?)```", section, re.DOTALL))
    if namespace == upstream_chart.NAMESPACE:
        suite = {"namePrefix": PREFIX, **suite, **(there[0] if there else {})}
    return theirs, suite


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    with standalone_control_plane.running() as running:
        yield running


def _run(plane: ControlPlane, name: str, *words: str, stdin: object = None, fails: bool = False) -> str:
    program = [sys.executable, "-m", "koordctl"] if name == "koordctl" else [str(plane.binaries / name)]
    environment = {**os.environ, "KUBECONFIG": str(plane.kubeconfig)}
    text = None if stdin is None else json.dumps(stdin)
    done = subprocess.run([*program, *words], input=text, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode != 0) is fails, done.stdout + done.stderr
    return done.stderr if fails else done.stdout


def _koordinator(plane: ControlPlane, values: dict[str, Any]) -> None:
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": upstream_chart.NAMESPACE}}
    items = [namespace, *upstream_chart.objects(values)]
    everything = {"apiVersion": "v1", "kind": "List", "items": items}
    _run(plane, "kubectl", "apply", "--server-side", "--filename=-", stdin=everything)


def _running(plane: ControlPlane) -> list[tuple[str, str]]:
    """Return (part, namespace) of each agent, manager and scheduler that would run."""
    listed = json.loads(_run(plane, "kubectl", "get", "deployments,daemonsets", "--all-namespaces", "--output=json"))
    return sorted(
        (item["metadata"]["name"], item["metadata"]["namespace"])
        for item in listed["items"]
        if item["metadata"]["name"].removeprefix(PREFIX) in PARTS
        and item["spec"].get("replicas", 1)
        and "koordinator.sh/koordlet" not in json.dumps(item["spec"]["template"]["spec"].get("affinity"))
    )


@pytest.mark.parametrize("namespace", [SUITE, upstream_chart.NAMESPACE])
@pytest.mark.parametrize(
    ("component", "name"), [("agent", "koordlet"), ("manager", "koord-manager"), ("scheduler", "koord-scheduler")]
)
def test_each_component_installs_from_the_page_and_replaces_exactly_its_own(
    plane: ControlPlane, component: str, name: str, namespace: str
) -> None:
    theirs, suite = _values(component, namespace)
    _koordinator(plane, theirs)
    release = (RELEASE, f"--namespace={namespace}")
    _run(plane, "helm", "install", *release, str(CHART), "--create-namespace", REGISTRY, "--values=-", stdin=suite)
    try:
        installed = name if namespace == SUITE else f"{PREFIX}{name}"
        others = [(part, upstream_chart.NAMESPACE) for part in PARTS if part != name]
        assert _running(plane) == sorted([(installed, namespace), *others])
        status = _run(plane, "koordctl", "status", f"--namespace={namespace}", "--output=json")
        assert set(json.loads(status)["versions"]) - {"koord-admission"} == {name}
    finally:
        _run(plane, "helm", "uninstall", *release, "--no-hooks", "--wait")


def test_refuses_their_namespace_and_a_second_scheduler_of_their_name_with_the_page(plane: ControlPlane) -> None:
    _, suite = _values("scheduler")
    _koordinator(plane, {})
    there = (RELEASE, str(CHART), REGISTRY, "--values=-")
    refusal = _run(plane, "helm", "install", *there, "-n", upstream_chart.NAMESPACE, stdin=suite, fails=True)
    assert "Deployment koord-scheduler is of the release koordinator" in refusal
    assert "docs/how-to/beside-koordinator.md" in refusal
    words = ("helm", "install", *there, "-n", SUITE, "--create-namespace", "--dry-run=server")
    assert "both would bind the same pods" in _run(plane, *words, stdin=suite, fails=True)
    both = suite | {"scheduler": {"name": "suite-scheduler"}}
    both |= {"admissionPolicies": {"midSchedulers": ["koord-scheduler"]}}
    assert "suite-scheduler" in _run(plane, *words, stdin=both)
    beside = ("helm", "install", *there, "-n", upstream_chart.NAMESPACE, "--dry-run=server")
    rendered = _run(plane, *beside, stdin=both | {"namePrefix": PREFIX})
    assert f"resourceName: {PREFIX}koord-scheduler" in rendered
