"""Placements and evictions by the product are those of a plain model of it, over random clusters."""

import itertools

import pytest

from scheduler_plugin.kube_scheduler.answers import Answers
from scheduler_plugin.kube_scheduler.refused_pods import RefusedPods
from tests.scheduler_plugin.in_process import comparison, scripted_cluster

pytestmark = pytest.mark.slow

SEEDS = range(12)


def compared(*, in_tree_scores, volumes):
    for seed in SEEDS:
        yield comparison.compare(scripted_cluster.drawn(seed, in_tree_scores=in_tree_scores, volumes=volumes))


@pytest.mark.parametrize(("in_tree_scores", "volumes"), list(itertools.product((False, True), repeat=2)))
def test_placements_and_evictions_agree(in_tree_scores, volumes):
    """A pod for which the woken ones leave no room is not woken, so that it tries to evict others later."""
    runs = list(compared(in_tree_scores=in_tree_scores, volumes=volumes))
    assert [run.product.placements for run in runs] == [run.model.placements for run in runs]
    assert sum(bool(run.differences()) for run in runs) <= int(in_tree_scores)
    assert sum(len(run.product.placements) for run in runs) > 10 * len(runs)
    assert sum(len(run.product.evictions) for run in runs) > 0
    attempts, by_model = (sum(run.attempts for run in both) for both in zip(*(each[1:] for each in runs), strict=True))
    assert attempts <= by_model


@pytest.mark.parametrize(
    ("owner", "name", "replacement"),
    [
        (RefusedPods, "choose", lambda self, now, monotonic: iter(())),
        (Answers, "reserve", lambda self, uid, node, now: None),
        (Answers, "unreserve", lambda self, uid, now: None),
    ],
    ids=["waking of refused pods", "reservation", "release"],
)
def test_a_part_that_is_taken_out_is_noticed(monkeypatch, owner, name, replacement):
    monkeypatch.setattr(owner, name, replacement)
    assert any(run.differences() for run in compared(in_tree_scores=False, volumes=True))
