"""Where no group of pods is found: on a node of a cluster the rest is unknown, on any other machine all is system."""

import pytest

from koordlet.cluster.interface import NoCluster
from koordlet.cluster.view import ClusterView
from koordlet.prediction.allocation import WholeAmounts
from koordlet.samples import SYSTEM
from tests.host_trees.plain_files import V2
from tests.koordlet.one_node import OneNode


@pytest.mark.parametrize(
    ("cluster", "is_known"), [(ClusterView("n1"), False), (NoCluster(lambda: WholeAmounts(16_000, 1 << 34)), True)]
)
def test_only_without_a_cluster_may_a_machine_have_no_group_of_pods(tmp_path, cluster, is_known):
    node = OneNode(tmp_path, cluster, V2)
    (node.host.host_root.cgroup_root / "kubepods").rename(tmp_path / "away")
    node.run(2)
    assert (SYSTEM in node.observer.newest) is is_known
    node.observer.collector.close()
