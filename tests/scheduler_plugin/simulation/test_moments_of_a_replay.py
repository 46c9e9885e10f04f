"""What wakes a waiting pod in a replay, and the simulated time of the product's decisions."""

import numpy as np

from scheduler_plugin.simulation.kube_scheduler_model import Weights
from scheduler_plugin.simulation.replay import Replay
from scheduler_plugin.simulation.scenario import BEGINNING, Scenario, SimulatedNode, SimulatedPod
from tests.scheduler_plugin import factories
from tests.scheduler_plugin.simulation.test_replay import a_cluster, parts

ONLY_THE_PRODUCT = Weights(0, 0, 1)


def test_the_departure_of_a_pod_wakes_another_at_once():
    cluster = a_cluster([0.5, 0.5], [8, 8], nodes=1, at_seconds=[0, 0], lifetime_seconds=[450, 60])
    result = Replay(cluster).run()
    assert result.placements[1].at_seconds == 450  # between its tries without an event at 300 s and 600 s


def running(name, node, cpu_millis, at_seconds=0.0):
    pod = factories.pod(name, node=node, requests={"cpu": "1", "memory": "1Gi"}, phase="Running")
    return SimulatedPod(pod, np.array([[cpu_millis], [0.0]]), at_seconds)


def test_the_start_of_a_pod_wakes_another_that_the_product_rejected():
    # The only node is hot from the beginning; a pod that is pinned to it starts at 400 s.
    refused = SimulatedPod(factories.pod("refused", requests={"cpu": "1", "memory": "1Gi"}), np.zeros((2, 1)), 300.0)
    hot = [SimulatedNode(factories.node("n1", cpu="10"))]
    cluster = Scenario(hot, [running("hot", "n1", 8000.0), refused, running("late", "n1", 0.0, 400.0)], 60.0, 10)
    result = Replay(cluster, parts({"usageThresholds": {"cpu": 65}})).run()
    assert (result.placements, result.tries) == ({}, {1: 2})


def test_a_pod_that_left_counts_no_more_before_the_next_report():
    # Both arrive at 1 s, and the first has left its node when the third arrives, before any further report.
    cluster = a_cluster([1, 1, 1], [4, 2, 1], at_seconds=[1, 1, 25], lifetime_seconds=[20, 9000, 9000])
    nodes = Replay(cluster, parts(), weights=ONLY_THE_PRODUCT).run().placements
    assert nodes[0].node != nodes[1].node
    assert nodes[2].node == nodes[0].node


def with_a_silent_node():
    """Build a cluster of an idle node whose agent reported once, and of a node with some usage that reports on."""
    pod = SimulatedPod(factories.pod("late", requests={"cpu": "1", "memory": "1Gi"}), np.zeros((2, 1)), 900.0)
    recorded = {
        "metadata": {"name": "silent"},
        "status": {
            "updateTime": "2023-11-14T22:13:20Z",
            "nodeMetric": {"nodeUsage": {"resources": {"cpu": "0", "memory": "0"}}},
        },
    }
    silent = SimulatedNode(factories.node("silent", cpu="10"), recorded=recorded, agent_reports=False)
    used = SimulatedNode(factories.node("used", cpu="10"), other_usage=(3000.0, 0.0))
    assert BEGINNING == 1_700_000_000  # the moment of `recorded`
    return Scenario([silent, used], [running("old", "used", 0.0), pod], 60.0, 20)


def test_a_report_of_the_beginning_is_expired_after_a_quarter_of_an_hour():
    arguments = {"filterExpiredNodeMetrics": True, "enableScheduleWhenNodeMetricsExpired": False}
    arguments |= {"usageThresholds": {"cpu": 65}}
    result = Replay(with_a_silent_node(), parts(arguments)).run()
    assert result.placements[1].node == "used"
    assert sum(result.rejections.values()) == 1


def test_an_expired_report_has_the_lowest_score():
    arguments = {"filterExpiredNodeMetrics": False}
    result = Replay(with_a_silent_node(), parts(arguments), weights=ONLY_THE_PRODUCT).run()
    assert (result.placements[1].node, result.rejections) == ("used", {})
