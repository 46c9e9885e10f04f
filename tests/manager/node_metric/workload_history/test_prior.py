"""Prior of the scores of a pool."""

from __future__ import annotations

import pytest

from manager.node_metric.workload_history import prior
from manager.node_metric.workload_history.prior import NodeScores, Scores

NOW = 1_800_000_000
HOUR = 3600


def _node(labels: float = 120.0, *, cell: int = 7, age_hours: int = 0) -> NodeScores:
    return NodeScores(NOW - age_hours * HOUR, Scores(labels, [(cell, labels), (9, 1.0)]), Scores())


def test_a_prior_is_the_sum_of_the_newest_scores_of_its_nodes() -> None:
    summed = prior.prior([_node(cell=cell) for cell in (3, 3, 4, 4, 4)], NOW)
    assert summed is not None
    assert (summed.time, summed.nodes, summed.cpu.labels) == (NOW, 5, 600)
    assert summed.cpu.cells == [(3, 240.0), (4, 360.0), (9, 5.0)]
    assert summed.memory == Scores()


@pytest.mark.parametrize(
    ("nodes", "labels", "is_enough"), [(5, 100, True), (4, 1000, False), (5, 99, False), (50, 10, True)]
)
def test_a_prior_needs_500_labels_of_5_nodes(nodes: int, labels: float, is_enough: bool) -> None:
    assert (prior.prior([_node(labels)] * nodes, NOW) is not None) is is_enough


def test_a_node_that_is_gone_leaves() -> None:
    there = [_node(200.0, cell=3)] * 5
    gone = [_node(200.0, cell=4, age_hours=168)] * 5
    weights = [dict(scores.cpu.cells) for scores in [prior.prior([*there, *gone], NOW)] if scores is not None]
    assert [(cells[3], cells[4]) for cells in weights] == [(1000.0, 500.0)]
    assert prior.prior([_node(age_hours=169)] * 50, NOW) is None
    assert prior.prior([*there, _node(cell=4, age_hours=169)], NOW) == prior.prior(there, NOW)
