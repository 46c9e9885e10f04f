"""Summaries at the edges of their counts, and the columns of their table."""

import numpy as np

from api_types.kubernetes import pods
from scheduler_plugin.simulation import node_agents, outcome, scenario, table
from scheduler_plugin.simulation.outcome import Outcome, Placement
from scheduler_plugin.simulation.scenario import Scenario, SimulatedNode, SimulatedPod
from tests.scheduler_plugin import factories


def an_outcome(*cpu_millis, arrivals=(), placements=None, tries=None):
    """Build an outcome of one node of 10 cores with this demand by step."""
    usage = np.zeros((2, 1))
    arriving = [SimulatedPod(factories.pod(f"p{index}"), usage, at) for index, at in enumerate(arrivals)]
    made = Scenario([SimulatedNode(factories.node("n1", cpu="10"))], arriving, 60.0, len(cpu_millis))
    demand = np.array([[cpu_millis], [[0.0] * len(cpu_millis)]], dtype=np.float64)
    counts = np.zeros((1, len(cpu_millis)), dtype=np.int32)
    return Outcome(made, demand, counts, placements or {}, tries or {}, {})


def test_a_node_at_exactly_80_percent_is_not_hot():
    made = an_outcome(8000.0, 8001.0)
    assert outcome.summary(made).hot_ratio == 0.5
    assert made.hot_nodes().tolist() == [0, 1]


def test_a_pod_waits_from_its_arrival_and_its_second_try_counts_as_a_retry():
    placements = {0: Placement("n1", 100.0), 1: Placement("n1", 50.0)}
    made = outcome.summary(an_outcome(0.0, arrivals=(40.0, 50.0), placements=placements, tries={0: 2, 1: 1}))
    assert (made.placed, made.waited, made.mean_wait_seconds) == (2, 1, 30.0)


def test_without_a_placed_pod_the_mean_wait_is_0():
    made = outcome.summary(an_outcome(0.0, arrivals=(0.0,), tries={0: 3}))
    assert (made.placed, made.waited, made.never_placed, made.mean_wait_seconds) == (0, 0, 1, 0.0)


def test_a_scenario_without_steps_has_an_empty_summary():
    made = outcome.summary(an_outcome())
    assert (made.hot_ratio, made.overload_ratio, made.spread, made.peak, made.nodes_used) == (0, 0, 0, 0, 0)


def test_a_node_without_allocatable_has_no_utilization_and_the_smallest_node_has():
    statuses = (pods.NodeStatus(), pods.NodeStatus(allocatable={"cpu": "1m", "memory": "1"}))
    nodes = [pods.Node(metadata=pods.ObjectMeta(name="n"), status=status) for status in statuses]
    used = node_agents.utilization(np.full((2, 2, 1), 3.0), [SimulatedNode(node) for node in nodes])
    assert used.tolist() == [[[0.0], [3.0]], [[0.0], [3.0]]]


def test_columns_are_as_wide_as_their_longest_cell():
    made = an_outcome(9000.0)
    lines = table.text({"a": made, "a contender with a long name": made}).splitlines()
    summary = lines[: lines.index("")]
    assert len({len(line) for line in summary}) == 1
    first, second = summary[0].index("a"), summary[0].index("a contender")
    assert summary[1].startswith("node-time above 80 % CPU")
    titles = [line[: first - len("100.00%") + 1] for line in summary]
    assert all(title.endswith("  ") for title in titles)
    assert second > first


def test_names_of_nodes_have_as_many_digits_as_the_last():
    made = scenario.from_series(
        node_count=11, node_cpu_millis=1, node_memory_bytes=1, cpu_millis=[], request_cpu_millis=[],
        step_seconds=60, steps=1,
    )  # fmt: skip
    names = [each.node.metadata.name for each in made.nodes]
    assert (names[0], names[-1]) == ("node-00", "node-10")
