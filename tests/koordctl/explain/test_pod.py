"""Answer of `koordctl explain pod`: its head, its tables, its end and its document."""

import datetime as dt

import msgspec
import pytest

from api_types.kubernetes import pods
from fleet.wire import WireCondition
from koordctl.explain import pod as explained
from tests.fleet import cluster
from tests.koordctl.explain.test_misses import GIB, guarded

NOW = dt.datetime(2026, 11, 21, 10, 0, tzinfo=dt.UTC)
MID = {"kubernetes.io/mid-cpu": "11k", "kubernetes.io/mid-memory": "8Gi"}
MESSAGE = "0/2 nodes are available: 2 node(s) were odd."
UNSCHEDULED = WireCondition("PodScheduled", "False", "Unschedulable", MESSAGE)


def answer(*, node="", requests=None, most_nodes=0, decision=None, **more):
    pod = msgspec.convert(cluster.pod("etl-0", "shop", node, 7000, requests or MID), pods.Pod)
    decisions = [] if decision is None else [decision]
    return explained.answer(explained.ExplainedPod(pod, NOW, decisions=decisions, **more), most_nodes)


def test_the_nodes_of_a_decision_have_results_scores_and_sentences():
    nodes = [
        {"node": "a", "result": "passed", "score": 0, "sentence": "x"},
        {"node": "b", "result": "passed", "score": 70, "sentence": "y"},
        {"node": "c", "result": "rejected", "score": None, "sentence": "z", "reason": "r"},
    ]
    table = answer(decision={"nodes": nodes}).tables[-1]
    assert [tuple(row) for row in table.rows] == [
        ("a", "passed", "0", "x"), ("b", "passed", "70", "y"), ("c", "rejected", "-", "z"),
    ]  # fmt: skip


@pytest.mark.parametrize(("most", "shown", "more"), [(0, 3, 0), (1, 1, 2), (2, 2, 1), (3, 3, 0), (4, 3, 0)])
def test_so_many_nodes_of_a_decision_are_shown_and_the_others_counted(most, shown, more):
    found = answer(decision={"nodes": [guarded(name, 9_000) for name in "abc"]}, most_nodes=most)
    assert len(found.tables[-1].rows) == shown
    lines = [line for line in found.tail if "more nodes" in line]
    assert lines == ([f"and {more} more nodes (--nodes 0 shows all)"] if more else [])


@pytest.mark.parametrize("node", ["", "worker-1"])
def test_a_pod_on_a_node_needs_nothing_to_fit(node):
    found = answer(node=node, decision={"nodes": [guarded("a", 9_000)]})
    assert any(line.startswith("it would fit if ") for line in found.tail) is not bool(node)
    assert found.data.node == (node or None)


@pytest.mark.parametrize(
    ("requests", "text"),
    [
        (MID, "requests 11 cores and 8.0 GiB of Mid"),
        ({"kubernetes.io/mid-cpu": "11k"}, "requests 11 cores and 0.0 GiB of Mid"),
        ({"kubernetes.io/mid-memory": "8Gi"}, "requests 0 cores and 8.0 GiB of Mid"),
    ],
)
def test_the_head_has_the_mid_requests(requests, text):
    found = answer(requests=requests)
    assert found.head[0].endswith(text)
    wanted = (11_000 if "kubernetes.io/mid-cpu" in requests else 0, 8 * GIB if "8.0 GiB" in text else 0)
    assert (found.data.mid_requests.cpu_millis, found.data.mid_requests.memory_bytes) == wanted


def test_the_head_has_the_age_of_the_last_decision():
    decision = {"at": NOW.timestamp() - 40, "nodesPassed": 1, "nodesAsked": 3, "outcome": "bound"}
    assert answer(decision=decision).head[1] == "last decision 40s ago: 1 of 3 nodes passed the scheduler plugin; bound"
    named = answer(decision=decision | {"mode": "plugin"}).head[1]
    assert named == "last decision 40s ago: 1 of 3 nodes passed the scheduler plugin (mode plugin); bound"


@pytest.mark.parametrize(
    ("condition", "is_shown"),
    [
        (UNSCHEDULED, True),
        (WireCondition("PodScheduled", "True", "", MESSAGE), False),
        (WireCondition("Ready", "False", "", MESSAGE), False),
        (WireCondition("PodScheduled", "False", "", None), False),
    ],
)
def test_only_what_keeps_a_pod_from_a_node_is_shown_of_its_conditions(condition, is_shown):
    found = answer(conditions=[WireCondition("Initialized", "True"), condition])
    assert (f"kube-scheduler: {MESSAGE}" in found.head) is is_shown
    assert [(each.nodes, each.reason) for each in found.data.rejections] == [(2, "node(s) were odd")] * is_shown


def test_the_newest_decision_on_this_pod_counts_and_not_one_on_an_earlier_pod_of_its_name():
    pod = cluster.pod("etl-0", "shop", "", 7000, MID)
    pod["metadata"]["uid"] = "new"
    decisions = [{"uid": "old", "outcome": "1"}, {"uid": "new", "outcome": "2"}, {"uid": "new", "outcome": "3"}]
    given = explained.ExplainedPod(msgspec.convert(pod, pods.Pod), NOW, decisions=decisions)
    assert given.newest["outcome"] == "2"
    assert explained.ExplainedPod(given.pod, NOW, decisions=decisions[:1]).newest == {}
    assert explained.ExplainedPod(given.pod, NOW, decisions=[{"outcome": "4"}]).newest == {"outcome": "4"}
