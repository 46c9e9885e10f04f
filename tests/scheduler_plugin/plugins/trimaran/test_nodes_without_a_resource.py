"""Nodes whose status lacks a resource."""

from scheduler_plugin.state.pod_resources import Amounts
from tests.scheduler_plugin.plugins.trimaran.measured_cluster import MeasuredCluster


def test_a_node_without_memory_fits_no_pod_best():
    cluster = MeasuredCluster("LowRiskOverCommitment")
    cluster.node("whole")
    cluster.node("part", capacity={"cpu": "4"})
    rows = cluster.parts.vectors.find(["whole", "part"])
    assert cluster.plugin.columns.best_fit(rows, Amounts(2000, 0)).tolist() == [50, 0]
