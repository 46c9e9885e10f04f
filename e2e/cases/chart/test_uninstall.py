"""`helm uninstall` leaves no trace: the manager is stopped first, then what it has written is taken away.

The controls: without the hook the traces stay, and while a manager runs it puts back what is taken away.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from e2e.support import command_lines, fake_reports, waiting, workloads
from e2e.support.cluster_client import CONFIG_MAP, MID_CPU, MID_MEMORY, RECEIPT, SUITE_NAMESPACE, ClusterClient
from e2e.support.installation import CRD, RELEASE, Suite
from tools.localcluster.access import Cluster

PART = "app.kubernetes.io/part-of=koord-suite"
CLUSTER_WIDE = (
    "clusterroles,clusterrolebindings,priorityclasses,validatingadmissionpolicies,validatingadmissionpolicybindings,"
    "validatingwebhookconfigurations,mutatingwebhookconfigurations"
)
NAMESPACED = (
    "deployments,daemonsets,replicasets,jobs,configmaps,secrets,serviceaccounts,roles,rolebindings,"
    "poddisruptionbudgets,services"
)
HELM = ("--namespace", SUITE_NAMESPACE, "--wait", "--timeout=300s")
UNINSTALL = ("manager", "uninstall")


@pytest.fixture
def offering(
    cluster: Cluster, eyes: ClusterClient, suite: Suite, node: str, fake_nodes: list[str]
) -> Iterator[list[str]]:
    """Nodes that offer Mid; afterwards the suite is installed as before."""
    waiting.until("Mid on the real node", lambda: eyes.mid(node), within_seconds=180)
    fake_reports.publish(eyes, fake_nodes[0])
    yield [node, fake_nodes[0]]
    suite.install()
    for name in suite.pods("koordlet"):
        eyes.wait_running(SUITE_NAMESPACE, name)


def _traces(cluster: Cluster) -> list[str]:
    """What is left on nodes, of NodeMetrics and of Leases."""
    found = []
    for node in cluster.get("nodes")["items"]:
        name, status = node["metadata"]["name"], node["status"]
        found += [
            f"{name} {part} {key}" for part in ("capacity", "allocatable") for key in status[part] if "mid-" in key
        ]
        found += [f"{name} {key}" for key in node["metadata"].get("annotations") or {} if key == RECEIPT]
    if cluster.run("get", "crd", CRD, "--ignore-not-found", "--output=name").strip():
        found += [f"NodeMetric {each['metadata']['name']}" for each in cluster.get("nodemetrics")["items"]]
    leases = cluster.get("leases", "--namespace", SUITE_NAMESPACE)["items"]
    return found + [f"Lease {each['metadata']['name']}" for each in leases]


def _objects(cluster: Cluster) -> str:
    """Names of objects of the chart, and of anything else of ours in its namespace."""
    wide = cluster.run("get", CLUSTER_WIDE, f"--selector={PART}", "--output=name")
    ours = cluster.run(
        "get", NAMESPACED, "--all-namespaces", f"--selector={PART}", "--output=name", "--ignore-not-found"
    )
    return wide + ours


def _running(cluster: Cluster) -> list[str]:
    """Pods in our namespace that have not ended."""
    pods = cluster.get("pods", "--namespace", SUITE_NAMESPACE)["items"]
    return [pod["metadata"]["name"] for pod in pods if pod["status"]["phase"] not in ("Succeeded", "Failed")]


def test_helm_uninstall_leaves_no_trace(
    cluster: Cluster, eyes: ClusterClient, suite: Suite, offering: list[str]
) -> None:
    assert all(eyes.mid(name) for name in offering)
    assert _objects(cluster)
    cluster.run("helm", "uninstall", RELEASE, *HELM, timeout_seconds=330)
    assert _traces(cluster) == []
    waiting.until("nothing of the chart is left", lambda: _objects(cluster), lambda seen: not seen.strip())
    assert not cluster.run("get", "crd", CRD, "--ignore-not-found").strip()
    for config_map in (CONFIG_MAP, "koord-manager-last-good-config"):
        assert eyes.find("ConfigMap", config_map, SUITE_NAMESPACE) is None
    waiting.until("no process of ours runs", lambda: _running(cluster), lambda seen: not seen)
    assert _refused_to_the_hook(cluster) == []


def _refused_to_the_hook(cluster: Cluster) -> list[str]:
    """What its service account asked for and was not granted; nothing where no audit log is shown."""
    if cluster.audit_log is None or not cluster.audit_log.exists():
        return []
    account = f"system:serviceaccount:{SUITE_NAMESPACE}:koord-suite-uninstall"
    asked = [json.loads(line) for line in cluster.audit_log.read_text().splitlines() if account in line]
    ended = [event for event in asked if event["stage"] == "ResponseComplete" and event["user"]["username"] == account]
    assert ended
    return [f"{event['verb']} {event['requestURI']}" for event in ended if event["responseStatus"]["code"] == 403]


def test_without_the_hook_traces_stay_and_the_command_takes_them_away(
    cluster: Cluster, suite: Suite, offering: list[str]
) -> None:
    cluster.run("helm", "uninstall", RELEASE, "--no-hooks", *HELM, timeout_seconds=330)
    traces = _traces(cluster)
    for name in offering:
        assert f"{name} allocatable {MID_CPU}" in traces
        assert f"{name} {RECEIPT}" in traces
    assert "Lease koord-manager" in traces
    said = command_lines.run(*UNINSTALL, environment=cluster.environment)
    assert said.code == 0, said.text
    assert _traces(cluster) == []


def test_a_running_manager_puts_back_what_is_taken_away(
    cluster: Cluster, eyes: ClusterClient, offering: list[str]
) -> None:
    """Which is why the hook stops it first."""
    name, gone = offering[0], {MID_CPU: None, MID_MEMORY: None}
    eyes.patch_status("Node", name, {"status": {"capacity": gone, "allocatable": gone}})
    waiting.until("Mid is back", lambda: eyes.mid(name))


def test_a_manager_that_cannot_be_stopped_is_fenced_off_in_bounded_time(
    cluster: Cluster, eyes: ClusterClient, suite: Suite, offering: list[str], fake_nodes: list[str]
) -> None:
    """Where a kubelet is away, its pods stay: here one that is bound to a node without a kubelet."""
    stuck = workloads.pod("stuck-manager", suite.workload, nodes=[fake_nodes[1]])
    stuck["spec"]["nodeName"] = fake_nodes[1]
    stuck["metadata"]["labels"] = {"app.kubernetes.io/name": "koord-manager", "app.kubernetes.io/instance": RELEASE}
    eyes.create("Pod", stuck, SUITE_NAMESPACE)
    try:
        said = command_lines.run(*UNINSTALL, "--stop-seconds=40", environment=cluster.environment, within_seconds=120)
        assert said.code == 0, said.text
        assert said.line_with("continuing without waiting", "stuck-manager")
        assert _traces(cluster) == ["Lease koord-manager"]
        spec = cluster.get("lease", "koord-manager", "--namespace", SUITE_NAMESPACE)["spec"]
        assert spec["holderIdentity"] == "koord-suite-uninstall"
    finally:
        eyes.delete("Pod", "stuck-manager", SUITE_NAMESPACE, grace_seconds=0)
        eyes.delete("Lease", "koord-manager", SUITE_NAMESPACE)


def test_what_cannot_be_done_in_time_is_said_and_leaves_the_way_back_open(
    cluster: Cluster, suite: Suite, offering: list[str]
) -> None:
    """A NodeMetric that somebody's finalizer holds back."""
    hold = {"metadata": {"finalizers": ["example.com/hold"]}}
    where = ("nodemetric", offering[1], "--type=merge")
    cluster.run("patch", *where, f"--patch={json.dumps(hold)}")
    try:
        said = command_lines.run(*UNINSTALL, "--timeout-seconds=60", environment=cluster.environment, within_seconds=90)
        assert said.code == 1
        assert said.line_with("not finished after 60 s", "NodeMetrics", offering[1], "helm uninstall")
        assert not cluster.get("lease", "koord-manager", "--namespace", SUITE_NAMESPACE)["spec"].get("holderIdentity")
    finally:
        cluster.run("patch", *where, "--patch=" + json.dumps({"metadata": {"finalizers": None}}))
