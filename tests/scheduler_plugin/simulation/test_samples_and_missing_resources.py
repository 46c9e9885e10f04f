"""Samples of exactly the searched nodes, nodes without memory, and the tables of no time at all."""

import numpy as np

from scheduler_plugin.simulation import table
from tests.scheduler_plugin import factories
from tests.scheduler_plugin.simulation.test_kube_scheduler_model import ONLY_BALANCED, model
from tests.scheduler_plugin.simulation.test_summary_of_an_outcome import an_outcome


def test_a_search_that_finds_exactly_enough_nodes_has_checked_all_of_them():
    # Of 200 nodes 100 are scored at least. kube-scheduler stops only at one more, so the next search begins at 0 again.
    one = model(factories.node("a"))
    only_the_first_half = np.arange(200) < 100
    assert one.sample(only_the_first_half).tolist() == list(range(100))
    assert one.sample(np.ones(200, dtype=bool)).tolist() == list(range(100))
    assert one.sample(np.ones(200, dtype=bool)).tolist() == list(range(100, 200))


def test_a_node_without_memory_is_balanced_at_any_share_of_its_cpu():
    one = model(factories.node("a", cpu="10", memory="0"))
    assert one.scores({"cpu": 5000}, np.array([0]), ONLY_BALANCED).tolist() == [100]


def test_a_scenario_without_steps_has_a_table_without_lines_over_time():
    lines = table.text({"stock": an_outcome()}).splitlines()
    assert lines[0].split() == ["stock"]
    assert lines[-2:] == ["", "hot nodes (> 80 %), mean  stock"]
