"""A node is deleted and registered again under the same name: its Mid is back with the first report, not before."""

from __future__ import annotations

import pytest

from e2e.support import fake_reports, waiting
from e2e.support.cluster_client import ClusterClient
from tools.localcluster import fake_nodes as fakes
from tools.localcluster import layout
from tools.localcluster.access import Cluster


def _owners(eyes: ClusterClient, node: str) -> list[str]:
    """UIDs of the Nodes that the NodeMetric belongs to."""
    found = eyes.find("NodeMetric", node)
    return [each["uid"] for each in (found or {"metadata": {}})["metadata"].get("ownerReferences", ())]


@pytest.mark.parametrize("at_once", [True, False], ids=["at once", "after its NodeMetric is gone"])
def test_mid_is_back_with_the_first_report(
    cluster: Cluster, eyes: ClusterClient, fake_nodes: list[str], *, at_once: bool
) -> None:
    node, present = fake_nodes[0], len(eyes.list("Node", label_selector=layout.FAKE_NODE_LABEL))
    offered = fake_reports.publish(eyes, node)
    eyes.delete("Node", node)
    if not at_once:
        waiting.until("its NodeMetric is gone too", lambda: eyes.find("NodeMetric", node) is None)
    fakes.set_count(cluster, present)
    uid = eyes.get("Node", node)["metadata"]["uid"]
    waiting.until("a NodeMetric of the new node alone", lambda: _owners(eyes, node), lambda seen: seen == [uid])
    assert eyes.mid(node) is None, "nobody has measured the new node"
    assert fake_reports.publish(eyes, node) == offered
