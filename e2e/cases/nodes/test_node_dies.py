"""The node of the leading manager dies: the other one withdraws Mid, pods run elsewhere. A new node joins."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator

import pytest

from e2e.support import manager_faults, several_nodes, waiting
from e2e.support.cluster_client import ClusterClient, moment
from e2e.support.installation import Suite
from e2e.support.names import SUITE_NAMESPACE
from tools.localcluster.access import Cluster
from tools.localcluster.providers.nodes import Nodes

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def node(machines: Nodes, cluster_client: ClusterClient, three: list[str], apps: list[str]) -> Iterator[str]:
    """Return the node of the leading manager. It runs at the end, whatever a case has left of it."""
    leader = cluster_client.get("Pod", manager_faults.leading_pod(cluster_client), SUITE_NAMESPACE)
    name = leader["spec"]["nodeName"]
    yield name
    machines.up()
    several_nodes.until_all_offer(cluster_client, three)


def test_the_other_manager_withdraws_mid_and_the_pods_run_elsewhere(
    machines: Nodes, cluster_client: ClusterClient, three: list[str], node: str, apps: list[str], namespace: str
) -> None:
    several_nodes.shown("before", cluster_client, three)
    leader = manager_faults.leading_pod(cluster_client)
    machines.kill(node)
    several_nodes.until_withdrawn(cluster_client, node, "killed")
    for name in apps:
        several_nodes.until_places(
            cluster_client, namespace, name, "after the death",
            lambda seen: len(seen) == len(three) and node not in seen,
        )  # fmt: skip
    successor = manager_faults.leading_pod(cluster_client)
    print(f"leading manager: {leader} -> {successor}")
    assert successor != leader
    for other in several_nodes.shown("meanwhile", cluster_client, [name for name in three if name != node]):
        assert other.offers


def test_a_new_node_joins_and_gets_mid_with_its_first_report_and_pods(
    machines: Nodes, cluster: Cluster, cluster_client: ClusterClient, suite: Suite, three: list[str], node: str,
    apps: list[str], namespace: str,
) -> None:  # fmt: skip
    before = cluster_client.get("Node", node)["metadata"]["uid"]
    cluster_client.delete("Node", node)
    waiting.until("its NodeMetric is gone", lambda: cluster_client.find("NodeMetric", node) is None)
    began = dt.datetime.now(dt.UTC)
    several_nodes.replace(machines, cluster_client, node)
    print(f"{node}: a new node is Ready after {(dt.datetime.now(dt.UTC) - began).total_seconds():.0f} s")
    joined = several_nodes.until(cluster_client, node, "joined", lambda seen: seen.offers)
    assert cluster_client.get("Node", node)["metadata"]["uid"] != before
    assert joined.sampled > began
    assert joined.mid == several_nodes.read(cluster_client, three[0]).mid
    since = waiting.until("a prediction", lambda: cluster_client.node_metric(node)["status"]["prediction"]["since"])
    assert moment(since) > began, "of this node alone"
    for name in apps:
        cluster.run("scale", "deployment", name, "--namespace", namespace, f"--replicas={2 * len(three)}")
        several_nodes.until_places(
            cluster_client, namespace, name, "after a node has joined", lambda seen: seen == sorted(2 * three)
        )
    cluster.run("rollout", "status", f"deployment/{manager_faults.MANAGER}", "--namespace", SUITE_NAMESPACE)
