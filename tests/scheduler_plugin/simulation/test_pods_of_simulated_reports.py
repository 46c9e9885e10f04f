"""Pods, windows and limits of a simulated report."""

import msgspec
import numpy as np
import pytest

from api_types.kubernetes import pods
from scheduler_plugin.simulation.node_agents import NodeAgents
from scheduler_plugin.simulation.scenario import Scenario, SimulatedNode
from tests.scheduler_plugin import factories
from tests.scheduler_plugin.simulation.test_node_agents import agents, pod, raw_reports, usage_of

__all__ = ["raw_reports"]
pytestmark = pytest.mark.usefixtures("raw_reports")


def pods_of(report):
    return {each["name"]: each["podUsage"]["resources"]["cpu"] for each in report["status"]["podsMetric"]}


def test_a_report_has_the_usage_of_each_pod_in_its_own_step():
    one = agents(SimulatedNode(factories.node("a")))
    one.place(pod("p", 100.0, 200.0, 400.0), 0, at_seconds=120.0)
    reports = [pods_of(one.due(at)[0]) for at in (120.0, 180.0, 240.0, 300.0, 360.0)]
    assert reports == [{}, {"p": "100m"}, {"p": "200m"}, {"p": "400m"}, {"p": "400m"}]


def test_a_pod_that_ended_is_in_no_further_report():
    one = agents(SimulatedNode(factories.node("a")))
    one.place(pod("short", 100.0, lifetime_seconds=120.0), 0, at_seconds=0.0)
    one.place(pod("long", 100.0), 0, at_seconds=0.0)
    assert [list(pods_of(one.due(at)[0])) for at in (120.0, 180.0)] == [["short", "long"], ["long"]]


def test_the_last_usage_of_a_pod_is_repeated_once_or_more():
    one = agents(SimulatedNode(factories.node("a")), steps=3)
    one.place(pod("p", 100.0, 200.0), 0, at_seconds=0.0)
    one.place(pod("whole", 1.0, 2.0, 3.0, 4.0), 0, at_seconds=0.0)
    assert one.demand[0, 0].tolist() == [101, 202, 203]


def test_a_pod_of_less_than_a_milli_core_on_an_idle_node_has_its_whole_usage():
    one = agents(SimulatedNode(factories.node("a")))
    one.place(pod("p", 0.6), 0, at_seconds=0.0)
    assert pods_of(one.due(60.0)[0]) == {"p": "1m"}


def test_the_median_of_three_samples_is_the_first():
    one = agents(SimulatedNode(factories.node("a")))
    one.place(pod("p", 100.0, 200.0, 400.0), 0, at_seconds=0.0)
    (report,) = one.due(180.0)
    assert usage_of(report, "p50") == "100m"  # trunc(3 * 0.5) - 1 = 0
    assert usage_of(report, "p95") == "200m"  # trunc(3 * 0.95) - 1 = 1


def test_a_window_that_is_shorter_than_a_step_has_the_last_step():
    one = agents(SimulatedNode(factories.node("a")), step_seconds=1000.0)
    one.place(pod("p", 100.0, 300.0), 0, at_seconds=0.0)
    (report,) = one.due(2000.0)
    assert [usage_of(report, "avg", each) for each in ("5m0s", "30m0s")] == ["300m", "200m"]


def test_the_longest_window_has_its_steps_of_half_a_second():
    """Usage is 0, 2, 4, ... milli-cores: the mean of the last 3600 is 2 * 3959 - 3599."""
    one = NodeAgents(Scenario([SimulatedNode(factories.node("a"))], [], 0.5, 4000))
    one.demand[0, 0] = np.arange(4000) * 2.0
    (report,) = one.due(1980.0)
    assert usage_of(report, "avg", "30m0s") == "4319m"


@pytest.mark.parametrize(
    ("capacity", "allocatable", "usage"),
    [
        ({"cpu": "2"}, {"cpu": "1"}, "2000m"),
        ({}, {"cpu": "1"}, "1000m"),
        ({}, {}, "2500m"),
        ({"cpu": "?"}, {}, "2500m"),
    ],
)
def test_a_node_uses_its_capacity_at_most(capacity, allocatable, usage):
    status = pods.NodeStatus(capacity=capacity, allocatable=allocatable)
    one = agents(SimulatedNode(msgspec.structs.replace(factories.node("a"), status=status)))
    one.place(pod("p", 2500.0), 0, at_seconds=0.0)
    assert usage_of(one.due(60.0)[0]) == usage
