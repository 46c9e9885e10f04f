"""Mid resources are withdrawn while something that the manager needs is missing or refuses it."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterator

import pytest

from e2e.support import fake_fleet, manager_faults, slo_config, waiting
from e2e.support.cluster_client import ClusterClient
from e2e.support.installation import Suite
from e2e.support.names import SUITE_NAMESPACE
from tools.localcluster.access import Cluster

DEGRADE_MINUTES = 1
POLICY = "e2e-refuse-nodemetrics"
REFUSING = {
    "apiVersion": "v1",
    "kind": "List",
    "items": [
        {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingAdmissionPolicy",
            "metadata": {"name": POLICY},
            "spec": {
                "matchConstraints": {
                    "resourceRules": [
                        {
                            "apiGroups": ["slo.koordinator.sh"],
                            "apiVersions": ["*"],
                            "resources": ["nodemetrics"],
                            "operations": ["CREATE", "UPDATE"],
                        }
                    ]
                },
                "validations": [{"expression": "false", "message": "refused by the test"}],
            },
        },
        {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingAdmissionPolicyBinding",
            "metadata": {"name": POLICY},
            "spec": {"policyName": POLICY, "validationActions": ["Deny"]},
        },
    ],
}


@pytest.fixture
def offering(cluster_client: ClusterClient, fake_nodes: list[str]) -> Iterator[str]:
    """Return a node that publishes Mid, under a configuration that withdraws it a minute after its last sample."""
    slo_config.write(cluster_client, slo_config.changed(degradeTimeMinutes=DEGRADE_MINUTES))
    fake_fleet.publish(cluster_client, fake_nodes[0])
    yield fake_nodes[0]
    slo_config.write(cluster_client, slo_config.BASE)


@pytest.fixture
def refused(cluster: Cluster) -> Iterator[None]:
    """Let the apiserver refuse every write of a NodeMetric's spec."""
    cluster.run("apply", "--filename=-", stdin=json.dumps(REFUSING))
    yield
    cluster.run("delete", "--filename=-", "--ignore-not-found", stdin=json.dumps(REFUSING))


def _wait_withdrawn(cluster_client: ClusterClient, node: str, within_seconds: float) -> str:
    waiting.until(
        f"no Mid on {node}", lambda: cluster_client.mid(node), lambda seen: seen is None, within_seconds=within_seconds
    )
    status = cluster_client.mid_status(node)
    return status["reason"] if status else ""


def _is_refused(cluster: Cluster, node: str) -> bool:
    patch = '--patch={"spec": {"metricCollectPolicy": {"reportIntervalSeconds": 61}}}'
    try:
        cluster.run("patch", "nodemetric", node, "--type=merge", patch)
    except Exception as error:  # of the command line
        return "refused by the test" in str(error)
    return False


def test_node_metrics_that_cannot_be_written(
    cluster: Cluster, cluster_client: ClusterClient, offering: str, refused: None
) -> None:
    waiting.until("the policy is in force", lambda: _is_refused(cluster, offering))
    before = cluster_client.node_metric(offering)["spec"]
    slo_config.write(cluster_client, {"enable": False})
    _wait_withdrawn(cluster_client, offering, 30)
    assert cluster_client.node_metric(offering)["spec"] == before


@pytest.mark.long
def test_node_metrics_that_cannot_be_written_and_a_sample_that_grows_old(
    cluster: Cluster, cluster_client: ClusterClient, offering: str, refused: None
) -> None:
    waiting.until("the policy is in force", lambda: _is_refused(cluster, offering))
    slo_config.write(cluster_client, slo_config.changed(degradeTimeMinutes=DEGRADE_MINUTES, midReclaimRatioPercent=90))
    assert _wait_withdrawn(cluster_client, offering, 60 * DEGRADE_MINUTES + 30) == "SampleTooOld"


@pytest.mark.long
def test_pods_that_cannot_be_listed(cluster: Cluster, cluster_client: ClusterClient, offering: str) -> None:
    with manager_faults.without_rule(cluster, "clusterrole", "koord-suite-manager", "pods"):
        assert _wait_withdrawn(cluster_client, offering, 60 * DEGRADE_MINUTES + 60) == "SampleTooOld"


def test_a_configuration_that_cannot_be_read_from_the_start(
    cluster: Cluster, cluster_client: ClusterClient, suite: Suite, offering: str
) -> None:
    """The default degradeTimeMinutes applies, to the sample of which the node's annotation keeps the time."""
    old = (dt.datetime.now(dt.UTC) - dt.timedelta(minutes=16)).strftime("%Y-%m-%dT%H:%M:%SZ")
    where = ("--namespace", SUITE_NAMESPACE)
    with manager_faults.without_rule(cluster, "role", "koord-manager", "configmaps", *where):
        cluster_client.delete("NodeMetric", offering)
        manager_faults.restart(cluster_client, suite)
        manager_faults.offer(cluster_client, offering, old)
        _wait_withdrawn(cluster_client, offering, 60)
    manager_faults.restart(cluster_client, suite)
    fake_fleet.publish(cluster_client, offering)
