"""Codes and scores of several plugins in one cycle."""

import numpy as np
import pytest

from scheduler_plugin.framework import cycle
from scheduler_plugin.framework.cycle import PluginScores, SchedulingCycle, WeightedScorer
from scheduler_plugin.framework.interface import Pending
from scheduler_plugin.state.node_columns import NodeColumns
from scheduler_plugin.state.pod_info import PodInfo
from tests.scheduler_plugin.factories import NOW

POD = PodInfo(uid="u", key="default/p", is_prod=True, is_pinned=False, estimate=None)


class Rejecting:
    """A filter with given codes by row; None accepts all."""

    def __init__(self, name, reasons, codes, details=None):
        self.name, self.reasons, self._codes, self._details = name, reasons, codes, details
        self.pending = None

    def grow(self, capacity):
        pass

    def write(self, entry):
        pass

    def reject(self, pod, rows, vectors, now, pending=None):
        self.pending = pending
        return None if self._codes is None else np.array([self._codes[row] for row in rows], dtype=np.int16)

    def details(self, pod, vectors):
        return self._details or {}


class RejectingUnknown(Rejecting):
    """A filter that rejects unknown nodes with its second reason."""

    def reject_unknown(self, pod, count, vectors, pending=None):
        self.unknown_pending = pending
        return np.full(count, 2, dtype=np.int16)


def codes_of(filters, rows, pending=None):
    found = SchedulingCycle(filters, [], NodeColumns([])).filter(POD, np.array(rows), NOW, pending)
    return None if found is None else found.tolist()


FIRST = ("a", ("a1", "a2"))
SECOND = ("b", ("b1", "b2", "b3"))


@pytest.mark.parametrize(
    ("first", "second", "codes"),
    [
        (None, None, None),
        ([0, 0, 0], [0, 0, 0], None),
        ([1, 0, 2], None, [1, 0, 2]),
        (None, [1, 0, 3], [3, 0, 5]),
        ([1, 0, 0], [2, 3, 0], [1, 5, 0]),
        ([0, 0, 0], [0, 1, 0], [0, 3, 0]),
    ],
)
def test_the_first_plugin_that_rejects_a_node_gives_the_code(first, second, codes):
    assert codes_of([Rejecting(*FIRST, first), Rejecting(*SECOND, second)], [0, 1, 2]) == codes


def test_an_unknown_node_passes_unless_a_reason_holds_on_any_node():
    known = Rejecting(*FIRST, [1, 0])
    assert codes_of([known], [-1, 0, 1, -1]) == [0, 1, 0, 0]
    assert codes_of([Rejecting(*FIRST, None)], [-1, 0]) is None
    assert codes_of([known, RejectingUnknown(*SECOND, None)], [-1, 0, 1, -1]) == [4, 1, 0, 4]
    assert codes_of([Rejecting(*FIRST, None), RejectingUnknown(*SECOND, None)], [0, -1]) == [0, 4]


def test_pending_changes_are_divided_between_known_and_unknown_nodes():
    each = RejectingUnknown(*FIRST, [0, 0])
    codes_of([each], [-1, 0, 1], Pending(mid=np.array([[1, 2, 3], [4, 5, 6]])))
    assert each.pending.mid.tolist() == [[2, 3], [5, 6]]
    assert each.unknown_pending.mid.tolist() == [[1], [4]]
    assert each.pending.usage is None


def test_a_detail_is_added_to_its_reason_alone():
    filters = [Rejecting(*FIRST, None, {1: "3 of 4"}), Rejecting(*SECOND, None, {0: "5 of 6"})]
    of_pod = SchedulingCycle(filters, [], NodeColumns([]))
    assert list(of_pod.reason_texts(POD)) == ["a1", "a2: 3 of 4", "b1: 5 of 6", "b2", "b3"]
    assert of_pod.reasons == ["a1", "a2", "b1", "b2", "b3"]
    assert of_pod.rejecting_plugins == ["a", "a", "b", "b", "b"]


class Scoring:
    """A scorer that halves its scores; None prefers nothing."""

    def __init__(self, name, scores):
        self.name, self._scores = name, scores

    def score(self, pod, rows, vectors, now):
        return None if self._scores is None else np.array(self._scores)

    def normalize(self, scores):
        return scores // 2


def test_scores_are_normalised_and_a_plugin_without_a_preference_is_left_out():
    scorers = [WeightedScorer(Scoring("a", [10, 20]), 1), WeightedScorer(Scoring("b", None), 5)]
    of_pod = SchedulingCycle([], scorers, NodeColumns([]))
    (found,) = of_pod.scores_by_plugin(POD, np.array([0, 1]), NOW)
    assert (found.plugin, found.weight, found.scores.tolist()) == ("a", 1, [5, 10])
    assert of_pod.scores_by_plugin(POD, np.array([], dtype=np.intp), NOW) == []


@pytest.mark.parametrize(
    ("weighted", "sums"),
    [([], [0, 0]), ([(1, [5, 10])], [5, 10]), ([(3, [5, 10])], [15, 30]), ([(1, [5, 10]), (2, [1, 1])], [7, 12])],
)
def test_the_combined_score_is_the_weighted_sum(weighted, sums):
    by_plugin = [PluginScores("p", weight, np.array(scores)) for weight, scores in weighted]
    assert cycle.combined(by_plugin, 2).tolist() == sums
