"""Tests of the usage of nodes over time, and of reports without later usage."""

import numpy as np
import pytest

from benchmarks.series_scenario import from_series
from scheduler_plugin.simulation.scenario import (
    BEGINNING,
    NodeAgents,
    Scenario,
    SimulatedNode,
    SimulatedPod,
)
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
    """Return reports as documents, without decoding."""
    monkeypatch.setattr("scheduler_plugin.simulation.scenario._as_received", lambda document: document)


def test_a_pod_adds_its_usage_from_its_start_and_repeats_the_last_value():
    one = agents(SimulatedNode(factories.node("a"), other_usage=(50.0, 0.0)))
    one.place(pod("p", 100.0, 300.0, lifetime_seconds=240.0), 0, at_seconds=120.0)
    assert one.demand[0, 0].tolist() == [50, 50, 150, 350, 350, 350, 50, 50, 50, 50]
    assert one.pod_counts[0].tolist() == [0, 0, 1, 1, 1, 1, 0, 0, 0, 0]


def test_a_report_contains_the_previous_step_and_not_the_next(raw_reports):
    one = agents(SimulatedNode(factories.node("a")))
    one.place(pod("p", 100.0, 200.0, 400.0), 0, at_seconds=0.0)
    (at_120,) = one.due(120.0)
    assert usage_of(at_120) == "200m"
    assert one.due(121.0) == []
    (at_180,) = one.due(239.0)
    assert usage_of(at_180) == "400m"
    assert at_180["status"]["updateTime"] == "2023-11-14T22:16:20Z"  # 1,700,000,180


def test_reports_a_window_after_half_of_it(raw_reports):
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


def test_pods_share_the_capacity_of_an_overloaded_node(raw_reports):
    one = agents(SimulatedNode(factories.node("a", cpu="1")))
    one.place(pod("greedy", 1500.0), 0, at_seconds=0.0)
    one.place(pod("modest", 500.0), 0, at_seconds=0.0)
    (report,) = one.due(60.0)
    assert usage_of(report) == "1000m"
    used = {each["name"]: each["podUsage"]["resources"]["cpu"] for each in report["status"]["podsMetric"]}
    assert used == {"greedy": "750m", "modest": "250m"}


def test_nodes_report_at_different_moments_and_a_silent_agent_never(raw_reports):
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
    updated = {each["metadata"]["name"]: each["status"]["updateTime"] for each in later}
    assert updated == {"a": "2023-11-14T22:14:20Z", "b": "2023-11-14T22:13:40Z"}
    assert BEGINNING == 1_700_000_000


@pytest.mark.parametrize("series", [[], [np.nan], [-1.0]])
def test_names_an_unusable_series(series):
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
