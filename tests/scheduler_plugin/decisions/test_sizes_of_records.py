"""What a record counts, keeps and leaves out: known and unknown nodes, late scores, order and inputs on its page."""

import msgspec
import numpy as np
import pytest

from scheduler_plugin.decisions import explanation
from scheduler_plugin.decisions.recorder import Decision, DecisionRecords, RecordedColumns
from scheduler_plugin.framework.cycle import PluginScores
from scheduler_plugin.framework.interface import Explained
from scheduler_plugin.plugins.trimaran.fallback import FallbackLevel
from scheduler_plugin.state.pod_info import PodInfo
from tests.scheduler_plugin.factories import NOW

POD = PodInfo(uid="u", key="default/p", is_prod=True, is_pinned=False, estimate=None)


def records(max_bytes=2**20):
    columns = RecordedColumns()
    columns.grow(2)
    columns.names[:] = ["n0", "n1"]
    columns.updated_at[:] = [NOW - 10, NOW - 20]
    return DecisionRecords(columns, {}, max_bytes)


def recorded(rows, names, pod=POD, max_bytes=2**20):
    kept = records(max_bytes)
    kept.began(pod, np.array(rows), names, None, NOW)
    return kept


def sealed_bytes(*args, **more):
    kept = recorded(*args, **more)
    kept.seal()
    return kept.bytes


def test_a_decision_counts_before_its_inputs_are_copied():
    assert len(recorded([0], ["n0"])) == 1


def test_a_record_counts_the_names_of_unknown_nodes_only():
    assert sealed_bytes([0, -1], ["n0", "ghost"]) == sealed_bytes([0, 1], ["n0", "n1"]) + len("ghost")


def test_a_record_counts_the_texts_of_its_pod():
    longer = msgspec.structs.replace(POD, uid="u" * 11)
    assert sealed_bytes([0], ["n0"], longer) == sealed_bytes([0], ["n0"]) + 10


@pytest.mark.parametrize("names", [["n0"], ["n0", "ghost"], ["ghost", "n0"], ["ghost"]])
def test_only_known_nodes_have_the_time_of_their_report(names):
    (decision,) = recorded([0 if name == "n0" else -1 for name in names], names).of("default/p")
    assert list(decision.names) == names
    times = [None if np.isnan(each) else each for each in decision.updated_at]
    assert times == [NOW - 10 if name == "n0" else None for name in names]


def test_late_scores_evict_what_has_no_room_beside_them():
    size = sealed_bytes([0, 1], ["n0", "n1"])
    kept = recorded([0, 1], ["n0", "n1"], max_bytes=2 * size)
    kept.seal()
    kept.began(msgspec.structs.replace(POD, key="default/q"), np.array([0, 1]), ["n0", "n1"], None, NOW)
    kept.seal()
    assert (len(kept), kept.bytes) == (2, 2 * size)
    kept.scored(msgspec.structs.replace(POD, key="default/q"), np.array([0, 1]), [], np.array([7, 8]))
    assert [each.pod.key for each in kept.recent(9)] == ["default/q"]
    assert kept.bytes == size + 32, "two rows and two scores more"


def shown(decision, resources=("cpu",)):
    (page,) = explanation.page("default/p", [decision], ["A", "B"], resources)["decisions"]
    return page


def test_a_page_lists_passed_nodes_by_score_then_those_left_out_then_rejected_ones():
    codes = np.array([2, 0, 0, 0], dtype=np.int16)
    names = ["rejected", "unlisted", "lowest", "next"]
    decision = Decision(POD, np.arange(4), names, codes, NOW, reasons=("first", "second"))
    decision.updated_at = np.full(4, NOW)
    decision.nodes_scored, decision.scores = np.array([2, 3]), np.array([0, 1])
    decision.plugin_scores = [PluginScores("A", 1, decision.scores)]
    nodes = shown(decision)["nodes"]
    assert [each["node"] for each in nodes] == ["next", "lowest", "unlisted", "rejected"]
    assert [(each["plugin"], each["reason"]) for each in nodes] == [(None, None)] * 3 + [("B", "second")]


def test_a_node_has_no_reason_where_all_passed():
    decision = Decision(msgspec.structs.replace(POD, waited_seconds=30.0), np.arange(1), ["n"], None, NOW)
    decision.reasons, decision.updated_at = ("first",), np.full(1, NOW)
    page = shown(decision)
    assert (page["nodes"][0]["plugin"], page["nodes"][0]["reason"]) == (None, None)
    assert page["waitedForLoadSeconds"] == 30.0


def test_a_sentence_has_the_load_and_the_measurements_of_whichever_plugin_knows_them():
    decision = Decision(POD, np.arange(1), ["n"], None, NOW)
    decision.updated_at = np.full(1, NOW - 5)
    load = {"usage": np.array([[2000]]), "allocatable": np.array([[10_000]]), "limitPercent": np.array([[65]])}
    measured = {
        "meanPercent": np.array([[20.0]]),
        "deviationPercent": np.array([[0.0]]),
        "fallbackLevel": np.array([[FallbackLevel.UNKNOWN]]),
    }
    other = Explained((), {"isReady": np.array([True])})
    decision.inputs = {"A": other, "B": Explained(("cpu",), load), "C": Explained(("cpu",), measured)}
    assert shown(decision)["nodes"][0]["sentence"] == (
        "passed, not scored; cpu 2 + 0 of 10 = 20 %, limit 65 %, "
        "not measured although pods run on it, lowest score, report 5 s old"
    )
