"""Reports of the beginning contain the pods that run by then, and a pod that was placed waits no longer."""

import numpy as np
import pytest

from scheduler_plugin.simulation.replay import Replay
from scheduler_plugin.simulation.scenario import Scenario, SimulatedNode, SimulatedPod
from tests.scheduler_plugin import factories
from tests.scheduler_plugin.simulation.test_replay import parts

LIMIT = {"usageThresholds": {"cpu": 65}}
NODES = [SimulatedNode(factories.node("n1", cpu="10"))]


def running(cpu_millis, at_seconds=0.0):
    pod = factories.pod("hot", node="n1", requests={"cpu": "1", "memory": "1Gi"}, phase="Running")
    return SimulatedPod(pod, np.array([cpu_millis, [0.0] * len(cpu_millis)]), at_seconds)


def arriving(name, at_seconds, cpu="1", priority=9000):
    pod = factories.pod(name, requests={"cpu": cpu, "memory": "1Gi"}, priority=priority)
    return SimulatedPod(pod, np.zeros((2, 1)), at_seconds)


@pytest.mark.parametrize("at_seconds", [0.0, 1.0, 59.0, 61.0])
@pytest.mark.parametrize(("used_millis", "is_placed"), [(9000.0, False), (3000.0, True)])
def test_a_hot_node_rejects_pods_from_the_first_moment(at_seconds, used_millis, is_placed):
    cluster = Scenario(NODES, [running([used_millis]), arriving("new", at_seconds)], 60.0, 3)
    result = Replay(cluster, parts(LIMIT)).run()
    assert (list(result.placements) == [1]) is is_placed
    assert bool(result.rejections) is not is_placed


def test_a_refused_pod_that_every_node_accepts_later_takes_no_more_room():
    """The node is hot until 600 s; the second pod fits once a report shows that the first one uses nothing."""
    hot = running([9000.0] * 60 + [2500.0] + [900.0])
    pods = [hot, arriving("first", 595.0, "4", 9500), arriving("second", 612.0, "4")]
    replay = Replay(Scenario(NODES, pods, 10.0, 100, report_interval_seconds=10.0), parts(LIMIT))
    placed = replay.run().placements
    assert {index: each.at_seconds for index, each in placed.items()} == {1: 610.0, 2: 620.0}
    assert replay._product.waiting == 0
