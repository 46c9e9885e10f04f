"""Usage of nodes over time, and reports that know the past and not the future."""

import numpy as np
import pytest

from scheduler_plugin.simulation.node_agents import NodeAgents
from scheduler_plugin.simulation.scenario import BEGINNING, Scenario, SimulatedNode, SimulatedPod, from_series
from tests.scheduler_plugin import factories


def agents(*nodes, step_seconds=60.0, steps=10):
    return NodeAgents(Scenario(nodes, [], step_seconds, steps))


def pod(name, *cpu_millis, **more):
    usage = np.array([cpu_millis, [0.0] * len(cpu_millis)])
    return SimulatedPod(factories.pod(name), usage, **more)


def usage_of(report, statistic=None, window="5m0s"):
    status = report["status"]["nodeMetric"]
    if statistic is None:
        return status["nodeUsage"]["resources"]["cpu"]
    (found,) = [each for each in status["aggregatedNodeUsages"] if each["duration"] == window]
    return found["usage"][statistic]["resources"]["cpu"]


@pytest.fixture
def raw_reports(monkeypatch):
    """Reports as documents, before they are decoded the way the watch does it."""
    monkeypatch.setattr("scheduler_plugin.simulation.node_agents._as_received", lambda document: document)


def test_a_pod_adds_its_series_from_its_start_and_the_last_value_holds_to_its_end():
    one = agents(SimulatedNode(factories.node("a"), other_usage=(50.0, 0.0)))
    one.place(pod("p", 100.0, 300.0, lifetime_seconds=240.0), 0, at_seconds=120.0)
    assert one.demand[0, 0].tolist() == [50, 50, 150, 350, 350, 350, 50, 50, 50, 50]
    assert one.pod_counts[0].tolist() == [0, 0, 1, 1, 1, 1, 0, 0, 0, 0]


def test_a_report_tells_the_step_before_it_and_not_the_one_it_stands_in_front_of(raw_reports):
    one = agents(SimulatedNode(factories.node("a")))
    one.place(pod("p", 100.0, 200.0, 400.0), 0, at_seconds=0.0)
    (at_120,) = one.due(120.0)
    assert usage_of(at_120) == "200m"
    assert one.due(121.0) == []
    (at_180,) = one.due(239.0)
    assert usage_of(at_180) == "400m"
    assert at_180["status"]["updateTime"] == "2023-11-14T22:16:20Z"  # 1,700,000,180


def test_windows_are_told_once_they_are_half_covered(raw_reports):
    one = agents(SimulatedNode(factories.node("a")), steps=40)
    one.place(pod("p", *[100.0 * step for step in range(1, 31)]), 0, at_seconds=0.0)
    (early,) = one.due(120.0)
    assert early["status"]["nodeMetric"]["aggregatedNodeUsages"] == []
    (late,) = one.due(600.0)
    assert usage_of(late, "avg") == "800m"  # of 600, 700, ... 1000
    assert usage_of(late, "p50") == "700m"  # the second of five: trunc(5 * 0.5) - 1 = 1
    assert usage_of(late, "std") == "141m"
    assert usage_of(late, "p90", "10m0s") == "900m"
    assert [each["duration"] for each in late["status"]["nodeMetric"]["aggregatedNodeUsages"]] == [
        "5m0s",
        "10m0s",
        "15m0s",
    ]


def test_pods_that_want_more_than_the_node_has_share_what_there_is(raw_reports):
    one = agents(SimulatedNode(factories.node("a", cpu="1")))
    one.place(pod("greedy", 1500.0), 0, at_seconds=0.0)
    one.place(pod("modest", 500.0), 0, at_seconds=0.0)
    (report,) = one.due(60.0)
    assert usage_of(report) == "1000m"
    told = {each["name"]: each["podUsage"]["resources"]["cpu"] for each in report["status"]["podsMetric"]}
    assert told == {"greedy": "750m", "modest": "250m"}


def test_nodes_report_at_moments_of_their_own_and_a_silent_agent_never_again(raw_reports):
    recorded = {"metadata": {"name": "c"}, "status": {"updateTime": "2023-11-14T22:00:00Z"}}
    three = agents(
        SimulatedNode(factories.node("a")),
        SimulatedNode(factories.node("b")),
        SimulatedNode(factories.node("c"), recorded=recorded, agent_reports=False),
    )
    first = three.due(0.0)
    assert [each["metadata"]["name"] for each in first] == ["a", "b", "c"]
    assert first[2] is recorded
    later = three.due(70.0)
    told = {each["metadata"]["name"]: each["status"]["updateTime"] for each in later}
    assert told == {"a": "2023-11-14T22:14:20Z", "b": "2023-11-14T22:13:40Z"}
    assert BEGINNING == 1_700_000_000


@pytest.mark.parametrize("series", [[], [np.nan], [-1.0]])
def test_a_series_that_cannot_be_used_is_named(series):
    with pytest.raises(ValueError, match="series 0"):
        from_series(
            node_count=1,
            node_cpu_millis=1000,
            node_memory_bytes=1,
            cpu_millis=[np.array(series)],
            request_cpu_millis=[1],
            step_seconds=60,
            steps=1,
        )
