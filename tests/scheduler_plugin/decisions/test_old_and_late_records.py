"""Records of decisions that are reduced, scored late, or dropped, and what their memory counts."""

import numpy as np
import pytest

from scheduler_plugin.decisions.recorder import (
    DECISIONS_PER_POD,
    NODES_OF_OLD_DECISIONS,
    Choice,
    Decision,
    DecisionRecords,
    RecordedColumns,
)
from scheduler_plugin.framework.cycle import PluginScores
from scheduler_plugin.framework.interface import Explained
from scheduler_plugin.state.pod_info import PodInfo
from tests.scheduler_plugin.factories import NOW

COUNT = 100


def pod(name="p", uid="u"):
    return PodInfo(uid=uid, key=f"default/{name}", is_prod=True, is_pinned=False, estimate=None)


def columns(count=COUNT):
    made = RecordedColumns()
    made.grow(count)
    made.names[:] = [f"n{row}" for row in range(count)]
    made.updated_at[:] = NOW - np.arange(count)
    return made


class Usage:
    """An explainer with one column of one dimension, and one of two."""

    def explain(self, pod, rows):
        return Explained(("cpu",), {"used": np.array([rows * 10]), "row": rows * 1})


def records(max_bytes=2**20, count=COUNT):
    return DecisionRecords(columns(count), {"a": Usage()}, max_bytes)


def decide(kept, name="p", uid="u", count=COUNT, scores=None):
    rows = np.arange(count)
    kept.began(pod(name, uid), rows, [f"n{row}" for row in rows], None, NOW)
    if scores is not None:
        kept.scored(pod(name, uid), rows, [PluginScores("a", 1, np.array(scores))], np.array(scores))


def reduced(scores, node, most):
    """Return a decision on `len(scores)` nodes that keeps `most` of them."""
    decision = Decision(pod(), np.arange(len(scores)), [f"n{row}" for row in range(len(scores))], None, NOW)
    decision.updated_at = NOW - np.arange(len(scores), dtype=np.float64)
    decision.nodes_scored, decision.scores = np.arange(len(scores)), np.array(scores)
    decision.plugin_scores = [PluginScores("a", 1, np.array(scores) * 2)]
    decision.inputs = {"a": Usage().explain(None, decision.rows)}
    decision.node = node
    decision.reduce(most)
    return decision


def test_a_reduced_decision_keeps_its_node_and_the_best_ones_in_their_order():
    decision = reduced([5, 90, 10, 80, 70], "n0", 3)
    assert list(decision.names) == ["n0", "n1", "n3"]
    assert decision.rows.tolist() == [0, 1, 3]
    assert decision.updated_at.tolist() == [NOW, NOW - 1, NOW - 3]
    assert decision.scores.tolist() == [5, 90, 80]
    assert decision.nodes_scored.tolist() == [0, 1, 3]
    assert decision.plugin_scores[0].scores.tolist() == [10, 180, 160]
    assert decision.inputs["a"].columns["used"].tolist() == [[0, 10, 30]]
    assert decision.inputs["a"].columns["row"].tolist() == [0, 1, 3]
    assert (decision.asked, decision.passed, decision.is_whole()) == (5, 5, False)


def test_a_decision_with_as_few_nodes_is_whole():
    decision = reduced([5, 90, 10], "n0", 3)
    assert (decision.is_whole(), len(decision.names)) == (True, 3)


@pytest.mark.parametrize(("codes", "passed"), [(None, 3), ([0, 1, 2], 1), ([1, 1, 1], 0)])
def test_the_nodes_that_passed_are_counted(codes, passed):
    given = None if codes is None else np.array(codes)
    decision = Decision(pod(), np.arange(3), ["a", "b", "c"], given, NOW)
    assert (decision.asked, decision.passed) == (3, passed)


@pytest.mark.parametrize(
    ("scores", "row", "choice"),
    [
        ([5, 9, 7], 1, Choice.BEST),
        ([5, 9, 9], 1, Choice.TIED),
        ([5, 9, 7], 2, Choice.OTHER),
        ([9, 9, 9], 2, Choice.INDIFFERENT),
        ([0, 0, 0], 0, Choice.INDIFFERENT),
        ([5, 9, 7], 3, Choice.UNKNOWN),
        ([5, 9, 7], None, Choice.UNKNOWN),
    ],
)
def test_the_node_of_a_pod_is_compared_with_the_scores(scores, row, choice):
    assert reduced(scores, "n0", 3).choice(row) is choice


def test_a_bind_call_counts_its_choice_once_and_that_of_an_unknown_pod_as_unknown():
    kept = records()
    assert set(kept.choices.values()) == {0}
    decide(kept, scores=[1] * (COUNT - 1) + [2])
    kept.bound("default/p", "u", f"n{COUNT - 1}", COUNT - 1)
    kept.bound("default/p", "another uid", "n0", 0)
    assert {each: count for each, count in kept.choices.items() if count} == {Choice.BEST: 1, Choice.UNKNOWN: 1}
    assert [each.node for each in kept.of("default/p")] == [f"n{COUNT - 1}"]


def test_scores_that_come_after_the_record_is_sealed_belong_to_the_newest_decision_and_count():
    kept = records()
    decide(kept)
    kept.seal()
    before = kept.bytes
    scores = np.arange(COUNT)
    kept.scored(pod(), np.arange(COUNT), [PluginScores("a", 1, scores)], scores)
    (decision,) = kept.of("default/p")
    assert decision.scores.tolist() == list(range(COUNT))
    assert kept.bytes == before + 3 * 8 * COUNT, "the rows, the scores, and those of the plugin"


def test_scores_of_another_pod_of_that_name_are_not_recorded():
    kept = records()
    decide(kept)
    kept.seal()
    kept.scored(pod(uid="another"), np.arange(COUNT), [], np.arange(COUNT))
    (decision,) = kept.of("default/p")
    assert decision.scores is None


def test_a_pod_has_its_last_decisions_newest_first():
    kept = records()
    for count in range(1, DECISIONS_PER_POD + 3):
        decide(kept, count=count)
    asked = [each.asked for each in kept.of("default/p")]
    assert asked == [DECISIONS_PER_POD + 2, DECISIONS_PER_POD + 1, DECISIONS_PER_POD][:DECISIONS_PER_POD]
    assert len(kept) == DECISIONS_PER_POD
    assert [each.asked for each in kept.recent(1)] == [DECISIONS_PER_POD + 2]


def sizes_of(kept):
    return [each.size_bytes() for each in kept.recent(1000)]


@pytest.mark.parametrize("max_bytes", [30_000, 60_000, 100_000])
def test_the_memory_is_counted_exactly_and_bounded_and_the_newest_decisions_are_whole(max_bytes):
    kept = records(max_bytes)
    for index in range(60):
        decide(kept, name=f"p{index % 20}", uid=f"u{index % 20}", scores=range(COUNT))
        if index % 3 == 0:
            kept.bound(f"default/p{index % 20}", f"u{index % 20}", "n5", 5)
        kept.seal()
        assert kept.bytes == sum(sizes_of(kept)) <= max_bytes
        whole = [each.is_whole() for each in kept.recent(1000)]
        assert whole == sorted(whole, reverse=True), "the newest ones are whole"
        assert sum(each.size_bytes() for each in kept.recent(1000) if each.is_whole()) <= max_bytes // 2
    assert whole[0]
    assert not whole[-1]
    assert {len(each.names) for each in kept.recent(1000)} == {COUNT, NODES_OF_OLD_DECISIONS}


def test_without_memory_nothing_is_recorded():
    kept = records(0)
    decide(kept)
    assert (len(kept), kept.of("default/p"), kept.bytes) == (0, [], 0)


@pytest.mark.parametrize(
    ("rows", "ages"), [([0, 2], [0, 2]), ([2, -1], [2, None]), ([-1, -1], [None, None]), ([-1, 0], [None, 0])]
)
def test_an_unknown_node_has_its_name_and_no_report(rows, ages):
    kept = records()
    kept.began(pod(), np.array(rows), ["first", "second"], None, NOW)
    (decision,) = kept.of("default/p")
    names = [f"n{row}" if row >= 0 else name for row, name in zip(rows, ["first", "second"], strict=True)]
    assert list(decision.names) == names
    assert [None if np.isnan(at) else NOW - at for at in decision.updated_at] == ages
