"""Reasons of a refused pod, the nearest miss of each, and what would fit."""

import pytest

from fleet.node_state import Amounts, NodeState
from koordctl.explain import misses

GIB = 2**30
MID = "node(s) newest prediction leaves too little Mid"
WANTED = Amounts(11_000, 8 * GIB)
HOT = "node(s) cpu usage exceed threshold"


def node(name, mid=10_000, requested=0, memory=8 * GIB):
    return NodeState(name, mid=Amounts(mid, memory), mid_requests=Amounts(requested, 0))


def found(message="", rejected=(), mid=WANTED, nodes=(), estimate=None):
    return [
        (each.nodes, each.reason, each.nearest.text, each.source)
        for each in misses.groups(message, rejected, estimate or {}, mid, nodes)
    ]


def hot(name, used, limit=65, result="rejected"):
    columns = {"usage": {"cpu": used}, "allocatable": {"cpu": 10_000}, "limitPercent": {"cpu": limit}}
    return {"node": name, "result": result, "reason": HOT, "plugin": "LoadAwareScheduling",
            "inputs": {"LoadAwareScheduling": columns}, "reportAgeSeconds": 5.0}  # fmt: skip


def guarded(name, left):
    columns = {"midLeft": {"kubernetes.io/mid-cpu": left, "kubernetes.io/mid-memory": 9 * GIB}, "midClosed": False}
    return {"node": name, "result": "rejected", "reason": MID, "plugin": "MidGuard", "inputs": {"MidGuard": columns}}


def test_the_node_with_most_mid_left_is_the_nearest_miss():
    message = "0/3 nodes are available: 3 Insufficient kubernetes.io/mid-cpu. preemption: 0/3 nodes are available: x."
    given = [node("a", 9_000, 2_000), node("b", 12_000, 1_500), node("c", None)]
    assert found(message, nodes=given) == [
        (3, "Insufficient kubernetes.io/mid-cpu", "b has 10.5 cores left, short by 0.5 cores", "kube-scheduler")
    ]


def test_a_node_with_enough_left_is_no_miss_of_those_that_are_short():
    message = "0/3 nodes are available: 2 Insufficient kubernetes.io/mid-cpu, 1 node(s) had untolerated taint {a: b}."
    given = [node("a", 4_000), node("b", 6_000), node("tainted", 20_000)]
    assert found(message, nodes=given)[0][2] == "b has 6.0 cores left, short by 5.0 cores"


def test_a_node_with_enough_is_named_where_fewer_nodes_are_short_by_now():
    message = "0/2 nodes are available: 2 Insufficient kubernetes.io/mid-cpu."
    assert found(message, nodes=[node("a", 4_000), node("b", 12_000)])[0][2] == "b has 12.0 cores left now: enough"


def test_several_reasons_are_told_apart_and_the_most_frequent_is_first():
    message = "0/9 nodes are available: 2 node(s) had untolerated taint {a: b}, 6 Insufficient cpu, 1 node(s) were odd."
    assert [row[:2] for row in found(message)] == [
        (6, "Insufficient cpu"), (2, "node(s) had untolerated taint {a: b}"), (1, "node(s) were odd"),
    ]  # fmt: skip


def test_a_reason_of_the_scheduler_plugin_is_counted_once_with_its_numbers():
    message = f"0/3 nodes are available: 1 Insufficient memory, 2 {MID}."
    rows = found(message, [guarded("a", 4_000), guarded("b", 9_800)])
    assert rows == [
        (2, MID, "b has 9.8 cores left by its newest report, short by 1.2 cores", "MidGuard (decision record)"),
        (1, "Insufficient memory", "", "kube-scheduler"),
    ]


def test_the_usage_with_the_pod_is_compared_with_the_limit():
    rows = found("", [hot("a", 9_000), hot("b", 6_000), hot("c", 1, result="passed")], estimate={"cpu": 850})
    assert rows == [(2, HOT, "b: cpu 68 % with the pod, limit 65 %", "LoadAwareScheduling (decision record)")]


def test_a_reason_without_numbers_names_the_node_with_the_newest_report():
    reason, plugin = "node(s) nodeMetric expired", "LoadAwareScheduling"
    expired = [
        {"node": name, "result": "rejected", "reason": reason, "plugin": plugin, "inputs": {}, "reportAgeSeconds": age}
        for name, age in (("a", 900), ("b", 400), ("c", None))
    ]
    assert found("", expired)[0][:3] == (3, "node(s) nodeMetric expired", "b: report 6m old")


@pytest.mark.parametrize("message", ["", "0/3 nodes are available", "\x1b[2J", "1 1 1, 1 1 1" * 5_000, "available: 9"])
def test_a_message_of_another_form_gives_no_reason(message):
    assert found(message) == []


def test_a_node_that_has_enough_by_now_is_named():
    message = "0/1 nodes are available: 1 Insufficient kubernetes.io/mid-cpu."
    assert found(message, nodes=[node("a", 20_000)])[0][2] == "a has 20.0 cores left now: enough"
