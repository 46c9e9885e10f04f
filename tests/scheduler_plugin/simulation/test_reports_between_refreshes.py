"""When the product of a replay receives reports and measurements, and which of its pods are known from before."""

import numpy as np

from scheduler_plugin.simulation.kube_scheduler_model import Weights
from scheduler_plugin.simulation.replay import Replay
from scheduler_plugin.simulation.scenario import Scenario, SimulatedNode, SimulatedPod
from tests.scheduler_plugin import factories
from tests.scheduler_plugin.simulation.test_recorded_cluster import report
from tests.scheduler_plugin.simulation.test_replay import parts

LIMIT = {"usageThresholds": {"cpu": 65}}
NO_FILTER = {"filter": {"disabled": [{"name": "*"}]}}
PACKING = {"score": {"enabled": [{"name": "TargetLoadPacking"}], "disabled": [{"name": "*"}]}}
ONLY_THE_PRODUCT = Weights(0, 0, 1)


def node(name):
    return SimulatedNode(factories.node(name, cpu="10"))


def running(name, on, *cpu_millis, cpu="1", **more):
    pod = factories.pod(name, node=on, requests={"cpu": cpu, "memory": "1Gi"}, phase="Running", **more)
    return SimulatedPod(pod, np.array([cpu_millis, [0.0] * len(cpu_millis)]))


def arriving(name, at_seconds, *, cpu="1", **more):
    pod = factories.pod(name, requests={"cpu": cpu, "memory": "1Gi"}, **more)
    return SimulatedPod(pod, np.zeros((2, 1)), at_seconds)


def test_a_report_counts_from_its_moment():
    # The second of three nodes reports 20 s after the first; its report at 680 s is the first that is not hot.
    hot = [running("hot-1", "n1", 9000.0), running("hot-2", "n2", *[9000.0] * 11, 0.0), running("hot-3", "n3", 9000.0)]
    cluster = Scenario([node("n1"), node("n2"), node("n3")], [*hot, arriving("new", 601.0)], 60.0, 60)
    result = Replay(cluster, parts(LIMIT)).run()
    assert [(placed.node, placed.at_seconds) for placed in result.placements.values()] == [("n2", 680)]


def test_measurements_are_as_old_as_their_reports():
    # n1 has few requests and 3 of 10 cores are used, n2 has many and is idle: packing prefers the node nearer to 40 %.
    used, idle = running("used", "n1", 3000.0, cpu="10m"), running("idle", "n2", 10.0, cpu="3")
    pods = [used, idle, arriving("new", 600.0, cpu="10m")]
    cluster = Scenario([node("n1"), node("n2")], pods, 60.0, 60)
    result = Replay(cluster, parts(plugins=NO_FILTER | PACKING), weights=ONLY_THE_PRODUCT).run()
    assert result.placements[2].node == "n1"


def test_measurements_are_refreshed_every_30_seconds():
    # The second node reports its usage at 20 s, the third at 40 s; the refreshes are at 30 s and 60 s.
    used = [
        running("b", "n2", 1000.0, cpu="10m"),
        running("c", "n3", 10.0, 10.0, 10.0, 3000.0, cpu="10m"),
    ]
    new = [arriving(f"new-{at:.0f}", at, cpu="10m") for at in (41.0, 42.0, 61.0)]
    cluster = Scenario([node("n1"), node("n2"), node("n3")], [*used, *new], 10.0, 60)
    result = Replay(cluster, parts(plugins=NO_FILTER | PACKING), weights=ONLY_THE_PRODUCT).run()
    assert [placed.node for placed in result.placements.values()] == ["n2", "n2", "n3"]


def test_a_running_pod_that_was_placed_long_ago_counts_by_its_report():
    recorded = report("n1", "1", factories.reported("old", "1", "1Gi"))
    old = running("old", "n1", 1000.0, cpu="8", scheduled=-3600, initialized=-3590)
    one = SimulatedNode(factories.node("n1", cpu="10"), recorded=recorded)
    result = Replay(Scenario([one], [old, arriving("new", 1.0)], 60.0, 4), parts(LIMIT)).run()
    assert (result.tries, result.rejections) == ({1: 1}, {})


def test_a_placed_pod_takes_no_room_of_a_woken_one():
    # n1 has room for one pod from 610 s, and for another from 620 s; n2 is hot all the time.
    hot = [running("hot-1", "n1", *[9000.0] * 60, 2500.0, 900.0), running("hot-2", "n2", 9000.0)]
    new = [arriving("first", 595.0, cpu="4"), arriving("second", 612.0, cpu="4", priority=9000)]
    cluster = Scenario([node("n1"), node("n2")], [*hot, *new], 10.0, 100, report_interval_seconds=10.0)
    result = Replay(cluster, parts(LIMIT)).run()
    assert [(placed.node, placed.at_seconds) for placed in result.placements.values()] == [("n1", 610), ("n1", 620)]


def test_an_expired_node_wakes_no_pod():
    expiring = {"filterExpiredNodeMetrics": True, "enableScheduleWhenNodeMetricsExpired": False}
    silent = SimulatedNode(factories.node("n1", cpu="10"), recorded=report("n1", "1"), agent_reports=False)
    result = Replay(Scenario([silent], [arriving("new", 900.0)], 60.0, 18), parts(expiring)).run()
    assert (result.placements, result.tries) == ({}, {0: 1})
