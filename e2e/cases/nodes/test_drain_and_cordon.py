"""A node is cordoned, drained and opened again: Mid follows, the pods move, the agent stays."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from e2e.support import several_nodes
from e2e.support.cluster_client import ClusterClient
from e2e.support.installation import Suite
from tools.localcluster.access import Cluster

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def node(cluster: Cluster, three: list[str], apps: list[str]) -> Iterator[str]:
    yield three[2]
    cluster.run("uncordon", three[2])


def test_a_cordoned_node_keeps_its_pods_and_has_room_for_no_other(
    cluster: Cluster, cluster_client: ClusterClient, namespace: str, apps: list[str], three: list[str], node: str
) -> None:
    several_nodes.shown("before", cluster_client, three)
    cluster.run("cordon", node)
    several_nodes.until(
        cluster_client, node, "cordoned", lambda seen: seen.mid == several_nodes.BOUND and seen.closed == "Cordoned"
    )
    for name in apps:
        assert several_nodes.places(cluster_client, namespace, name) == three


def test_drained_pods_run_elsewhere_and_the_agent_reports_on(
    cluster: Cluster, cluster_client: ClusterClient, suite: Suite, namespace: str, apps: list[str],
    three: list[str], node: str,
) -> None:  # fmt: skip
    agent = suite.agent_pod(node)
    cluster.run("drain", node, "--ignore-daemonsets", "--delete-emptydir-data", "--timeout=150s", timeout_seconds=180)
    drained = several_nodes.until(cluster_client, node, "drained", lambda seen: seen.mid == (0, 0))
    for name in apps:
        several_nodes.until_places(
            cluster_client, namespace, name, "after the drain",
            lambda seen: len(seen) == len(three) and node not in seen,
        )  # fmt: skip
    later = several_nodes.until(cluster_client, node, "the next report", lambda seen: seen.sampled > drained.sampled)
    assert later.closed == "Cordoned"
    assert suite.agent_pod(node) == agent


def test_an_opened_node_offers_mid_at_once_and_gets_pods_again(
    cluster: Cluster, cluster_client: ClusterClient, namespace: str, apps: list[str], three: list[str], node: str
) -> None:
    cluster.run("uncordon", node)
    opened = several_nodes.until(
        cluster_client, node, "opened", lambda seen: seen.mid and seen.mid[0] and not seen.closed, within_seconds=45
    )
    assert opened.mid == several_nodes.read(cluster_client, three[0]).mid
    for name in apps:
        cluster.run("scale", "deployment", name, "--namespace", namespace, f"--replicas={2 * len(three)}")
        several_nodes.until_places(
            cluster_client, namespace, name, "after more were wanted", lambda seen: seen == sorted(2 * three)
        )
