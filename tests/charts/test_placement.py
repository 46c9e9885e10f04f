"""Nodes of the pods that have the manager's values: its replicas, the webhook, the hooks and the test."""

import json
import shutil

import pytest
import yaml

from tests.charts import chart

NODES = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": [
    {"key": "pool", "operator": "In", "values": ["system"]}]}]}}  # fmt: skip
MANAGER = {"matchLabels": {"app.kubernetes.io/name": "koord-manager"}}
APART = {"requiredDuringSchedulingIgnoredDuringExecution": [
    {"topologyKey": "kubernetes.io/hostname", "labelSelector": MANAGER}]}  # fmt: skip
ONLY_IN_A_CLUSTER = {
    "manager/restore-limits-hook.yaml": 'if include "koord-suite.endsSuppression" .',
    "tests/installation.yaml": 'if lookup "v1" "Namespace" "" "kube-system"',
}
"""Conditions that no rendering without a cluster meets, by template."""


@pytest.fixture
def complete(tmp_path):
    """Return a folder with the chart, with the objects that only a cluster gets."""
    folder = shutil.copytree(chart.FOLDER, tmp_path / "chart")
    for name, condition in ONLY_IN_A_CLUSTER.items():
        template = folder / "templates" / name
        text = template.read_text(encoding="utf-8")
        assert text.count(condition) == 1
        template.write_text(text.replace(condition, "if true"), encoding="utf-8")
    return folder


def affinities(folder, affinity):
    """Return the affinity of each pod with the manager's image, by its workload."""
    values = ["--set", "admission.mode=webhook", "--set-json", f"manager.affinity={json.dumps(affinity)}"]
    result = chart.run_helm("template", "koord-suite", str(folder), "--namespace", chart.NAMESPACE, *values)
    assert result.returncode == 0, result.stderr
    rendered = chart.Rendered(tuple(item for item in yaml.safe_load_all(result.stdout) if item))
    pods = {**rendered.workloads(), **rendered.hook_pods()}
    return {name: pod.get("affinity") for name, pod in pods.items() if "/manager:" in pod["containers"][0]["image"]}


def test_the_webhook_the_hooks_and_the_test_run_on_the_nodes_of_the_manager(complete):
    found = affinities(complete, {"nodeAffinity": NODES, "podAntiAffinity": APART})
    assert found.pop("koord-manager") == {"nodeAffinity": NODES, "podAntiAffinity": APART}
    webhook = found.pop("koord-admission")
    assert webhook["nodeAffinity"] == NODES
    assert list(webhook["podAntiAffinity"]) == ["preferredDuringSchedulingIgnoredDuringExecution"]
    hooks = ("koord-suite-restore-limits", "koord-suite-test", "koord-suite-uninstall")
    assert found == {name: {"nodeAffinity": NODES} for name in hooks}


def test_a_hook_without_an_affinity_of_nodes_runs_on_any_node(complete):
    """A rule about other pods, such as "not beside a manager", would keep it from the only node."""
    found = affinities(complete, {"podAntiAffinity": APART})
    assert {name for name, affinity in found.items() if affinity} == {"koord-manager", "koord-admission"}
    assert "nodeAffinity" not in found["koord-admission"]
