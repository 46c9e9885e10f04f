"""With Koordinator's CRD and PriorityClasses: the suite installs, reports its lost fields, and Mid is right."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from e2e.support import fake_fleet, slo_config, upstream_crd, waiting
from e2e.support.cluster_client import ClusterClient, cpu_millis, units
from e2e.support.installation import CRD, RELEASE, Suite
from e2e.support.names import SUITE_NAMESPACE
from tools.localcluster.access import Cluster

LOST = ("spec.predictPolicy", "spec.midColocationPolicy", "status.allocated", "status.prediction", "status.conditions")
RECLAIMABLE = {"cpu": "2500m", "memory": "9Gi"}
DUE = (2500, 9 * 2**30)
UNINSTALL = ("helm", "uninstall", RELEASE, "--namespace", SUITE_NAMESPACE, "--wait", "--timeout=300s")


@pytest.fixture(scope="module")
def beside_upstream(
    cluster: Cluster, cluster_client: ClusterClient, suite: Suite, fake_nodes: list[str]
) -> Iterator[None]:
    """Install beside what Koordinator has installed; afterwards all is as before."""
    cluster.run(*UNINSTALL, timeout_seconds=330)
    theirs = [upstream_crd.crd(), *upstream_crd.priority_classes()]
    for each in theirs:
        cluster.run("create", "--filename=-", stdin=json.dumps(each))
    suite.install("--set=priorityClasses.create=false")
    slo_config.write(cluster_client, slo_config.changed(midUnallocatedPercent=0))
    yield
    cluster.run(*UNINSTALL, timeout_seconds=330)
    assert cluster.get("nodemetrics")["items"] == []
    for each in theirs:  # not removed: they belong to Koordinator
        cluster.run("delete", each["kind"].lower(), each["metadata"]["name"])
    suite.install()
    slo_config.write(cluster_client, slo_config.BASE)


@pytest.mark.usefixtures("beside_upstream")
def test_the_manager_reports_on_the_crd_which_fields_it_drops(cluster: Cluster, cluster_client: ClusterClient) -> None:
    (event,) = waiting.until(
        "an Event on the CRD", lambda: cluster_client.events_of(CRD, "default", "NodeMetricFieldsDropped")
    )
    shown = cluster.run("events", "--namespace", "default", f"--for=crd/{CRD}")
    assert "NodeMetricFieldsDropped" in shown
    assert event["type"] == "Warning"
    assert all(field in event["message"] for field in LOST)


@pytest.mark.usefixtures("beside_upstream")
def test_mid_is_right_without_the_dropped_fields(
    cluster_client: ClusterClient, fake_nodes: list[str], node: str
) -> None:
    name = fake_nodes[0]
    sound = fake_fleet.prod_status(cpu_millis=1000, memory_mib=1024, prod_cpu_millis=3500, prod_memory_mib=10 * 1024)
    fake_fleet.report(
        cluster_client, name, {**sound, "prodReclaimableMetric": {"resource": {"resources": RECLAIMABLE}}}
    )
    assert "allocated" not in cluster_client.node_metric(name)["status"]
    waiting.until(
        "Mid by what is reclaimable", lambda: cluster_client.mid(name), lambda seen: seen == DUE, within_seconds=20
    )
    assert cluster_client.mid_status(name)["reason"] == "CalculatedFromReclaimable"

    def agree() -> bool:
        """Return whether Mid of the real node is what its agent reports as reclaimable, exactly."""
        reported = cluster_client.node_metric(node)["status"]["prodReclaimableMetric"]["resource"]["resources"]
        return cluster_client.mid(node) == (cpu_millis(reported["cpu"]), units(reported["memory"]))

    waiting.until("the real node offers what its agent reports", agree, within_seconds=150)


@pytest.mark.usefixtures("beside_upstream")
def test_helm_test_passes_with_a_warning(cluster: Cluster) -> None:
    output = cluster.run("helm", "test", RELEASE, "--namespace", SUITE_NAMESPACE, "--logs", timeout_seconds=330)
    warned = [line for line in output.splitlines() if "! warning  NodeMetricFieldsDropped" in line]
    assert warned, output
    assert all(field in line for field in LOST for line in warned), output
    assert "failed" not in output, output


@pytest.mark.usefixtures("beside_upstream")
def test_a_dropped_field_causes_no_endless_writes(cluster: Cluster, fake_nodes: list[str]) -> None:
    """Check that missing fields do not count as a difference, which would cause endless writes."""
    before = cluster.get("nodemetric", fake_nodes[1])["metadata"]
    assert "midColocationPolicy" not in cluster.get("nodemetric", fake_nodes[1])["spec"]
    if cluster.audit_log is None or not cluster.audit_log.exists():
        pytest.skip(f"provider {cluster.provider} does not show the apiserver's audit log")
    patches = [
        event
        for event in map(json.loads, cluster.audit_log.read_text().splitlines())
        if event["verb"] == "patch"
        and event.get("objectRef", {}).get("resource") == "nodemetrics"
        and event["objectRef"].get("name") == fake_nodes[1]
        and event["requestReceivedTimestamp"] > before["creationTimestamp"]
    ]
    assert len(patches) <= 4  # one or two a configuration
