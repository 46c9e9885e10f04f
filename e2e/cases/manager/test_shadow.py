"""`midPublish: shadow`: the audit log shows no write of the manager to a node, while reports are calculated."""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Iterator

import pytest

from e2e.support import audit_log, command_lines, slo_config, waiting
from e2e.support.audit_log import Write
from e2e.support.cluster_client import ClusterClient
from e2e.support.installation import Suite
from e2e.support.names import MID_CPU, STATUS_ANNOTATION, SUITE_NAMESPACE
from tools.localcluster.access import Cluster

MANAGER = f"system:serviceaccount:{SUITE_NAMESPACE}:koord-manager"
SHADOW_SECONDS = 70  # two reports
STATIC = {"midReclaimMode": "static", "midStaticCPUReservedPercent": 15, "midStaticMemoryReservedPercent": 5}


@pytest.fixture(scope="module")
def written(cluster: Cluster, cluster_client: ClusterClient, suite: Suite, node: str) -> Iterator[list[Write]]:
    """Switch a node that publishes to shadow, wait until its Mid is taken back, and return the writes from then on."""
    if cluster.audit_log is None or not cluster.audit_log.exists():
        pytest.skip(f"provider {cluster.provider} does not show the apiserver's audit log")
    slo_config.write(cluster_client, slo_config.changed(**STATIC))
    waiting.until("Mid on the node", lambda: cluster_client.mid(node), within_seconds=120)
    slo_config.write(cluster_client, slo_config.changed(**STATIC, midPublish="shadow"))
    waiting.until(
        "Mid is taken back from all nodes",
        lambda: {
            each["metadata"]["name"]
            for each in cluster_client.list("Node")
            if STATUS_ANNOTATION in (each["metadata"].get("annotations") or {})
            or MID_CPU in each["status"].get("allocatable", {})
        },
        lambda left: not left,
        within_seconds=90,
    )
    since = dt.datetime.now(dt.UTC)
    # An edit that changes the target, and another mode: still nothing for the node.
    time.sleep(SHADOW_SECONDS / 2)
    slo_config.write(cluster_client, slo_config.changed(midPublish="shadow"))
    time.sleep(SHADOW_SECONDS / 2)
    yield list(audit_log.writes(cluster.audit_log, since))
    slo_config.write(cluster_client, slo_config.BASE)


def test_nothing_is_written_to_a_node(cluster_client: ClusterClient, node: str, written: list[Write]) -> None:
    to_nodes = [each for each in written if each.user == MANAGER and each.target.startswith("nodes")]
    assert to_nodes == []
    assert (cluster_client.mid(node), cluster_client.mid_status(node)) == (None, None)


def test_the_agent_reported_and_the_manager_worked_meanwhile(written: list[Write], node: str) -> None:
    reports = [each for each in written if each.target == "nodemetrics/status" and each.name == node]
    assert len(reports) >= 2
    assert [each for each in written if each.user == MANAGER and each.target == "nodemetrics" and each.name == node]


def test_koordctl_shows_the_terms(cluster: Cluster, node: str, written: list[Write]) -> None:
    explained = command_lines.run("koordctl", "explain", "node", node, "--kubeconfig", str(cluster.kubeconfig))
    assert explained.code == 0, explained.text
    assert "midPublish is shadow: nothing is written to the node" in explained.text
    assert "= Mid resources, were they published" in explained.text
