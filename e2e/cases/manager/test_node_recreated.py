"""A node is deleted and registered again under the same name: Mid is published with the first report, not before."""

from __future__ import annotations

import pytest

from e2e.support import fake_fleet, waiting
from e2e.support.cluster_client import ClusterClient
from tools.localcluster import fake_nodes as fakes
from tools.localcluster import layout
from tools.localcluster.access import Cluster


def _owners(cluster_client: ClusterClient, node: str) -> list[str]:
    """Return the UIDs of the Nodes that own the NodeMetric."""
    found = cluster_client.find("NodeMetric", node)
    return [each["uid"] for each in (found or {"metadata": {}})["metadata"].get("ownerReferences", ())]


@pytest.mark.parametrize("at_once", [True, False], ids=["at once", "after its NodeMetric is gone"])
def test_mid_is_back_with_the_first_report(
    cluster: Cluster, cluster_client: ClusterClient, fake_nodes: list[str], *, at_once: bool
) -> None:
    node, present = fake_nodes[0], len(cluster_client.list("Node", label_selector=layout.FAKE_NODE_LABEL))
    offered = fake_fleet.publish(cluster_client, node)
    cluster_client.delete("Node", node)
    if not at_once:
        waiting.until("its NodeMetric is gone too", lambda: cluster_client.find("NodeMetric", node) is None)
    fakes.set_count(cluster, present)
    uid = cluster_client.get("Node", node)["metadata"]["uid"]
    waiting.until(
        "a NodeMetric of the new node alone", lambda: _owners(cluster_client, node), lambda seen: seen == [uid]
    )
    assert cluster_client.mid(node) is None, "the new node has no report"
    assert fake_fleet.publish(cluster_client, node) == offered
