"""Condition Ready of a report: whether the usage of the node is measured now."""

import pytest

from tests.koordlet.one_node import OneNode, StaticCluster, bound_pod


@pytest.mark.parametrize(
    ("age_seconds", "status", "reason"),
    [(0, "True", "Reporting"), (59, "True", "Reporting"), (60, "False", "NoNodeUsage")],
)
def test_a_sample_of_the_node_counts_for_a_minute(age_seconds, status, reason, tmp_path):
    node = OneNode(tmp_path, StaticCluster(bound_pod("a")))
    node.pod_cores = {"a": 0.25}
    node.run(30)
    node.seconds += age_seconds
    found = node.condition("Ready")
    assert (found["status"], found["reason"]) == (status, reason)
    node.observer.collector.close()
