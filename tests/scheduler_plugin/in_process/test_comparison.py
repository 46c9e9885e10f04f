"""Placements and evictions by the extender are those of a plugin inside kube-scheduler, over random clusters.

Differences are tolerated only after an event that docs/how-to/other-schedulers.md names.
"""

import itertools

import pytest

from scheduler_plugin.extender import verbs
from scheduler_plugin.queueing.refused_pods import RefusedPods
from scheduler_plugin.queueing.reservations import Reservations
from scheduler_plugin.state.cluster import Cluster
from tests.scheduler_plugin.in_process import comparison, scripted_cluster
from tests.scheduler_plugin.in_process.extender_calls import Extender
from tests.scheduler_plugin.in_process.scripted_cluster import Script, ScriptedNode, ScriptedPod

pytestmark = pytest.mark.slow

SEEDS = range(12)


def compared(*, in_tree_scores, volumes):
    for seed in SEEDS:
        yield comparison.compare(scripted_cluster.drawn(seed, in_tree_scores=in_tree_scores, volumes=volumes))


@pytest.mark.parametrize(("in_tree_scores", "volumes"), list(itertools.product((False, True), repeat=2)))
def test_placements_and_evictions_agree(in_tree_scores, volumes):
    runs = list(compared(in_tree_scores=in_tree_scores, volumes=volumes))
    assert [run.unexplained() for run in runs] == [[]] * len(runs)
    assert sum(bool(run.differences()) for run in runs) <= (len(runs) // 3 if in_tree_scores and volumes else 1)
    assert sum(len(run.outside.placements) for run in runs) > 10 * len(runs)
    assert sum(len(run.outside.evictions) for run in runs) > 0


def test_no_second_node_is_emptied_while_the_victims_on_the_first_are_ending():
    """A hot nominated node has room for the pod, because another pod left, before its victim has ended."""

    def pod(name, priority, memory_mib, arrives, **more):
        return ScriptedPod(name, priority, 250, memory_mib, usage_percent=5, arrives=arrives, lifetime=10**6, **more)

    script = Script(
        nodes=(
            ScriptedNode("n0", 8000, 16384, other_usage=((0, 400),)),
            ScriptedNode("n1", 8000, 16384, other_usage=((0, 400), (12, 7200))),
        ),
        pods=(
            pod("on-n0", 9100, 16000, 0),
            pod("leaves-n1", 9900, 8000, 1, leaves=16),
            pod("victim-on-n1", 9000, 8000, 2, grace=12),
            pod("important", 9500, 8000, 11),
        ),
        steps=20,
    )
    run = comparison.compare(script)
    assert run.unexplained() == []
    assert [each.victim for each in run.outside.evictions] == ["victim-on-n1"]


@pytest.mark.parametrize(
    ("owner", "name", "replacement"),
    [
        (Extender, "call_preempt", lambda self, pod, victims: list(victims)),
        (RefusedPods, "choose", lambda self, now, monotonic: iter(())),
        (Reservations, "pod_changed", lambda self, pod, now, monotonic, **_: None),
        (Cluster, "forget_assumed", lambda self, pod: None),
        (verbs.Extender, "reserve", lambda self, now, monotonic: None),
    ],
    ids=["preempt", "retry of refused pods", "release after a failed binding", "release", "reservation"],
)
def test_a_part_that_is_taken_out_is_noticed(monkeypatch, owner, name, replacement):
    monkeypatch.setattr(owner, name, replacement)
    assert any(run.unexplained() for run in compared(in_tree_scores=False, volumes=True))
