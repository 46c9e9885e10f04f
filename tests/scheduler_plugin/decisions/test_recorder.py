"""Records of decisions: inputs as of the decision, bounded memory, and the choice of kube-scheduler."""

import json

import numpy as np
import pytest

from scheduler_plugin.decisions import explanation
from scheduler_plugin.decisions.recorder import DECISIONS_PER_POD, DecisionRecords, NodeChoice
from scheduler_plugin.framework.interface import PluginScores
from scheduler_plugin.state.node_columns import NodeColumns
from scheduler_plugin.state.pod_info import PodInfo
from tests.scheduler_plugin import factories
from tests.scheduler_plugin.factories import NOW, pod_document, request

NODES = ["n1", "n2", "n3"]


def pod(name="p", uid="u"):
    return PodInfo(uid=uid, key=f"default/{name}", is_prod=True, is_pinned=False, estimate=(0, 0))


def a_decision(records, *, name="p", uid="u", scores=None, codes=None, count=3):
    """Filter over rows 0, 1 ... and, with `scores`, prioritize the passing ones."""
    rows = np.arange(count)
    given = None if codes is None else np.array(codes, dtype=np.int16)
    records.began(pod(name, uid), rows, given, NOW, ())
    if scores is not None:
        passing = rows if given is None else rows[given == 0]
        records.scored(pod(name, uid), passing, [PluginScores("a", 1, np.array(scores))], np.array(scores))


def records(max_bytes=2**20, count=3):
    columns = NodeColumns([])
    columns.grow(count)
    columns.names[:] = NODES
    return DecisionRecords(columns, {}, max_bytes)


@pytest.mark.parametrize(
    ("scores", "went_to", "choice"),
    [
        ([50, 60, 40], "n2", NodeChoice.BEST),
        ([60, 60, 40], "n2", NodeChoice.TIED),
        ([50, 60, 40], "n1", NodeChoice.OTHER),
        ([60, 60, 60], "n2", NodeChoice.INDIFFERENT),
        ([50, 60, 40], "n7", NodeChoice.UNKNOWN),
        (None, "n2", NodeChoice.UNKNOWN),
    ],
)
def test_a_bind_call_is_counted_by_the_score_of_its_node(scores, went_to, choice):
    kept = records()
    a_decision(kept, scores=scores)
    kept.bound("default/p", "u", went_to)
    kept.bound("default/p", "u", "n3")
    assert {name: count for name, count in kept.choices.items() if count} == {choice: 1}
    assert kept.decisions("default/p")[0].node == went_to, "the first one counts"


def test_a_re_created_pod_is_another_pod():
    kept = records()
    a_decision(kept, uid="first", scores=[1, 2, 3])
    kept.bound("default/p", "second", "n1")
    assert not any(kept.choices.values())
    assert kept.decisions("default/p")[0].node == ""


def test_a_retried_pod_keeps_its_last_decisions_only():
    kept = records()
    for attempt in range(10):
        a_decision(kept, scores=[attempt, 0, 0])
    a_decision(kept, name="other")
    assert [each.scores[0] for each in kept.decisions("default/p")] == [9, 8, 7]
    assert len(kept) == DECISIONS_PER_POD + 1
    assert kept._whole_bytes == kept.bytes, "what is dropped does not count as whole either"


def test_memory_is_bounded_and_the_oldest_decision_is_evicted_first():
    kept = records(max_bytes=20_000)
    for number in range(50):
        a_decision(kept, name=f"p{number}", scores=[1, 2, 3])
    kept.seal()
    assert 10_000 < kept.bytes <= 20_000
    assert kept.decisions("default/p0") == []
    assert len(kept.decisions("default/p49")) == 1
    assert kept.bytes == sum(each.size_bytes() for n in range(50) for each in kept.decisions(f"default/p{n}"))


def test_without_memory_there_are_no_records():
    kept = records(max_bytes=0)
    a_decision(kept, scores=[1, 2, 3])
    kept.bound("default/p", "u", "n1")
    assert kept.decisions("default/p") == []


@pytest.fixture
def parts():
    """Return parts with the idle nodes n1 and n2, and the hot node n3."""
    made = factories.parts()
    for name, cpu in (("n1", "10"), ("n2", "20"), ("n3", "90")):
        made.cluster.node_changed(factories.node(name))
        made.cluster.metric_changed(factories.metric(name, usage={"cpu": cpu, "memory": "1Gi"}))
    return made


def test_inputs_are_those_of_the_decision_after_later_changes(parts):
    parts.extender.filter(request(pod_document("web"), NODES), NOW + 5)
    parts.cluster.metric_changed(factories.metric("n1", usage={"cpu": "99", "memory": "1Gi"}, updated=60))
    parts.cluster.node_deleted("n2")
    parts.cluster.metric_deleted("n2")
    parts.cluster.node_changed(factories.node("usurper"))  # takes the row of n2
    (decision,) = parts.records.decisions("default/web")
    assert list(decision.names) == NODES
    assert decision.updated_at.tolist() == [NOW, NOW, NOW]
    columns = decision.inputs["LoadAwareScheduling"].columns
    assert columns["usage"][0].tolist() == [10_000, 20_000, 90_000]
    assert columns["limitPercent"].tolist() == [[65] * 3, [95] * 3]


def test_the_verbs_make_a_complete_record(parts):
    body = request(pod_document("web", requests={"cpu": "1"}), NODES)
    parts.extender.filter(body, NOW)
    parts.extender.prioritize(request(pod_document("web", requests={"cpu": "1"}), ["n1", "n2"]), NOW)
    parts.extender.shown(factories.pod("web", node="n1"), NOW)
    (decision,) = parts.records.decisions("default/web")
    # n1: (100 - 10 - 0.85) cores -> 89, memory 98 -> 93; n2: 79 and 98 -> 88; the hot n3 is rejected
    assert decision.scores.tolist() == [93, 88, -1]
    assert (decision.node, decision.codes.tolist()) == ("n1", [0, 0, 2])
    assert parts.records.choices[NodeChoice.BEST] == 1


def test_older_decisions_keep_the_counts_and_the_best_nodes_in_less_memory():
    parts, names = factories.parts(), [f"node-{number:03d}" for number in range(300)]
    for number, name in enumerate(names):
        parts.cluster.node_changed(factories.node(name))
        usage = {"cpu": str(number % 100), "memory": "1Gi"}
        parts.cluster.metric_changed(factories.metric(name, usage=usage))
    parts.records._max_bytes = 400_000
    for number in range(100):
        document = pod_document(f"web-{number}")
        passed = parts.extender.filter(request(document, names), NOW)
        parts.extender.prioritize(request(document, json.loads(passed)["NodeNames"]), NOW)
        parts.extender.shown(factories.pod(f"web-{number}", node="node-042"), NOW)
        parts.cluster.pod_deleted("default", f"web-{number}")
    assert len(parts.records) > 30
    assert parts.records.bytes <= 400_000
    (newest,) = parts.records.decisions("default/web-99")
    assert len(newest.rows) == 300
    (older,) = parts.records.decisions("default/web-70")
    assert (older.asked, older.passed, len(older.rows)) == (300, 198, 20)
    page = explanation.page("default/web-70", [older], [], ("cpu", "memory"))["decisions"][0]
    assert page["nodesLeftOut"] == 280
    assert (page["nodes"][0]["node"], page["nodes"][0]["result"]) == ("node-042", "chosen")
    best = [node["score"] for node in page["nodes"][1:]]
    assert best == sorted(best, reverse=True)
    assert best[0] == max(newest.scores)
