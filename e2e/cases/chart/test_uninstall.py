"""`helm uninstall` leaves no trace: a hook stops the manager first, then removes what the manager has written.

The controls: without the hook the traces stay, and a running manager restores what is removed. Each uninstallation
costs a new installation: those that only wait, or that a lone API server shows as well, are in the long run.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from e2e.support import command_lines, fake_fleet, traces, waiting, workloads
from e2e.support.cluster_client import ClusterClient
from e2e.support.installation import CRD, RELEASE, Suite
from e2e.support.names import CONFIG_MAP, MID_CPU, MID_MEMORY, STATUS_ANNOTATION, SUITE_NAMESPACE
from tools.localcluster.access import Cluster

HELM = ("--namespace", SUITE_NAMESPACE, "--wait", "--timeout=300s")
UNINSTALL = ("manager", "uninstall")
BANDS = ("prod", "mid", "batch", "free")


@pytest.fixture
def offering(cluster_client: ClusterClient, suite: Suite, node: str, fake_nodes: list[str]) -> list[str]:
    """Return nodes with Mid resources."""
    del suite
    waiting.until("Mid on the real node", lambda: cluster_client.mid(node), within_seconds=180)
    fake_fleet.publish(cluster_client, fake_nodes[0])
    return [node, fake_nodes[0]]


@pytest.fixture
def _installed_again(cluster_client: ClusterClient, suite: Suite) -> Iterator[None]:
    """Install the suite again after the test."""
    yield
    suite.install()
    for name in suite.pods("koordlet"):
        cluster_client.wait_running(SUITE_NAMESPACE, name)


def test_a_running_manager_restores_what_is_removed(cluster_client: ClusterClient, offering: list[str]) -> None:
    """Show why the hook stops the manager first."""
    name, gone = offering[0], {MID_CPU: None, MID_MEMORY: None}
    cluster_client.patch_status("Node", name, {"status": {"capacity": gone, "allocatable": gone}})
    waiting.until("Mid is back", lambda: cluster_client.mid(name))


@pytest.mark.usefixtures("_installed_again")
def test_helm_uninstall_leaves_no_trace(
    cluster: Cluster, cluster_client: ClusterClient, suite: Suite, offering: list[str]
) -> None:
    assert all(cluster_client.mid(name) for name in offering)
    assert traces.objects(cluster)
    cluster.run("helm", "uninstall", RELEASE, *HELM, timeout_seconds=330)
    assert traces.left_by_manager(cluster) == []
    waiting.until("nothing of the chart is left", lambda: traces.objects(cluster), lambda seen: not seen.strip())
    assert not cluster.run("get", "crd", CRD, "--ignore-not-found").strip()
    for config_map in (CONFIG_MAP, "koord-manager-last-good-config"):
        assert cluster_client.find("ConfigMap", config_map, SUITE_NAMESPACE) is None
    waiting.until("no process of the suite runs", lambda: traces.running(cluster), lambda seen: not seen)
    assert _refused_to_the_hook(cluster) == []


@pytest.mark.long
@pytest.mark.usefixtures("_installed_again")
def test_by_default_crd_and_priority_classes_stay_and_a_new_installation_takes_them_over(
    cluster: Cluster, suite: Suite, offering: list[str]
) -> None:
    suite.install("--set=crds.keep=true,priorityClasses.keep=true")
    cluster.run("helm", "uninstall", RELEASE, *HELM, timeout_seconds=330)
    assert offering
    assert traces.left_by_manager(cluster) == []
    waiting.until(
        "only the PriorityClasses are left",
        lambda: set(traces.objects(cluster).split()),
        lambda seen: seen == {f"priorityclass.scheduling.k8s.io/koord-{band}" for band in BANDS},
    )
    uid = cluster.get("crd", CRD)["metadata"]["uid"]
    suite.install("--set=crds.keep=true,priorityClasses.keep=true")
    assert cluster.get("crd", CRD)["metadata"]["uid"] == uid
    suite.install("--set=crds.install=false,priorityClasses.create=false")
    assert cluster.get("crd", CRD)["metadata"]["uid"] == uid
    assert all(cluster.get("priorityclass", f"koord-{band}") for band in BANDS)


def _refused_to_the_hook(cluster: Cluster) -> list[str]:
    """Return the denied requests of the hook's service account; none where the provider has no audit log."""
    if cluster.audit_log is None or not cluster.audit_log.exists():
        return []
    account = f"system:serviceaccount:{SUITE_NAMESPACE}:koord-suite-uninstall"
    events = [json.loads(line) for line in cluster.audit_log.read_text().splitlines() if account in line]
    ended = [event for event in events if event["stage"] == "ResponseComplete" and event["user"]["username"] == account]
    assert ended
    return [f"{event['verb']} {event['requestURI']}" for event in ended if event["responseStatus"]["code"] == 403]


@pytest.mark.usefixtures("_installed_again")
@pytest.mark.long
def test_without_the_hook_traces_stay_until_the_command_removes_them(
    cluster: Cluster, suite: Suite, offering: list[str]
) -> None:
    cluster.run("helm", "uninstall", RELEASE, "--no-hooks", *HELM, timeout_seconds=330)
    left = traces.left_by_manager(cluster)
    for name in offering:
        assert f"{name} allocatable {MID_CPU}" in left
        assert f"{name} {STATUS_ANNOTATION}" in left
    assert "Lease koord-manager" in left
    output = command_lines.run(*UNINSTALL, environment=cluster.environment)
    assert output.code == 0, output.text
    assert traces.left_by_manager(cluster) == []


@pytest.mark.long
@pytest.mark.usefixtures("_installed_again")
def test_a_manager_that_cannot_be_stopped_is_fenced_off_in_bounded_time(
    cluster: Cluster, cluster_client: ClusterClient, suite: Suite, offering: list[str], fake_nodes: list[str]
) -> None:
    """Keep a pod that cannot end: it is bound to a node without a kubelet."""
    stuck = workloads.pod("stuck-manager", suite.workload, nodes=[fake_nodes[1]])
    stuck["spec"]["nodeName"] = fake_nodes[1]
    stuck["metadata"]["labels"] = {"app.kubernetes.io/name": "koord-manager", "app.kubernetes.io/instance": RELEASE}
    cluster_client.create("Pod", stuck, SUITE_NAMESPACE)
    try:
        output = command_lines.run(*UNINSTALL, "--stop-seconds=40", environment=cluster.environment, within_seconds=120)
        assert output.code == 0, output.text
        assert output.line_with("continuing without waiting", "stuck-manager")
        assert traces.left_by_manager(cluster) == ["Lease koord-manager"]
        spec = cluster.get("lease", "koord-manager", "--namespace", SUITE_NAMESPACE)["spec"]
        assert spec["holderIdentity"] == "koord-suite-uninstall"
    finally:
        cluster_client.delete("Pod", "stuck-manager", SUITE_NAMESPACE, grace_seconds=0)
        cluster_client.delete("Lease", "koord-manager", SUITE_NAMESPACE)


@pytest.mark.long
@pytest.mark.usefixtures("_installed_again")
def test_what_cannot_be_done_in_time_is_reported_and_can_be_repeated(
    cluster: Cluster, suite: Suite, offering: list[str]
) -> None:
    """Hold a NodeMetric back by the finalizer of another client."""
    hold = {"metadata": {"finalizers": ["example.com/hold"]}}
    where = ("nodemetric", offering[1], "--type=merge")
    cluster.run("patch", *where, f"--patch={json.dumps(hold)}")
    try:
        output = command_lines.run(
            *UNINSTALL, "--timeout-seconds=60", environment=cluster.environment, within_seconds=90
        )
        assert output.code == 1
        assert output.line_with("not finished after 60 s", "NodeMetrics", offering[1], "helm uninstall")
        assert not cluster.get("lease", "koord-manager", "--namespace", SUITE_NAMESPACE)["spec"].get("holderIdentity")
    finally:
        cluster.run("patch", *where, "--patch=" + json.dumps({"metadata": {"finalizers": None}}))
