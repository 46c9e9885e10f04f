"""Reasons of a refused pod, the nearest miss of each, and what would fit."""

import pytest

from api_types import names
from fleet.node_state import Amounts, NodeState
from koordctl.explain import pod

GIB = 2**30
MID = "node(s) newest prediction leaves too little Mid"
HOT = "node(s) cpu usage exceed threshold"
WANTED, NOTHING = Amounts(11_000, 8 * GIB), Amounts(None, None)


def node(name, mid=10_000, requested=0, memory=8 * GIB):
    return NodeState(name, mid=Amounts(mid, memory), mid_requests=Amounts(requested, 0))


def found(message="", rejected=(), nodes=(), estimate=None):
    return [
        (group.nodes, group.reason, group.nearest.text, group.source)
        for group in pod.groups(message, rejected, estimate or {}, WANTED, nodes)
    ]


def hot(name, used, result="rejected"):
    columns = {"usage": {"cpu": used}, "allocatable": {"cpu": 10_000}, "limitPercent": {"cpu": 65}}
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
    assert found(message, nodes=given)[0][2] == "b has 6 cores left, short by 5 cores"


def test_a_node_with_enough_is_named_where_fewer_nodes_are_short_by_now():
    message = "0/2 nodes are available: 2 Insufficient kubernetes.io/mid-cpu."
    assert found(message, nodes=[node("a", 4_000), node("b", 12_000)])[0][2] == "b has 12 cores left now: enough"


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


def of_record(plugin, reason, inputs, wanted=NOTHING):
    """Return the nearest miss of nodes a, b, ... with inputs of one plugin."""
    rejected = [
        {"node": name, "result": "rejected", "reason": reason, "plugin": plugin, "inputs": {plugin: each},
         "reportAgeSeconds": 5.0}
        for name, each in zip("abc", inputs, strict=False)
    ]  # fmt: skip
    (group,) = pod.groups("", rejected, {}, wanted, [])
    return group.nearest


def over_limit(*nodes):
    return of_record("LoadAwareScheduling", HOT, nodes)


def load(usage, allocatable, limit):
    return {"usage": usage, "allocatable": allocatable, "limitPercent": limit}


def short_of_mid(*left, wanted):
    return of_record("MidGuard", MID, [{"midLeft": dict(zip(names.MID_RESOURCES, each, strict=True))} for each in left],
                     wanted=wanted)  # fmt: skip


@pytest.mark.parametrize(
    "reason", ["Insufficient cpu", "node(s) had no kubernetes.io/mid-cpu", "kubernetes.io/mid-cpu"]
)
def test_only_a_mid_resource_that_is_insufficient_has_a_nearest_miss(reason):
    assert found(f"0/9 nodes are available: 9 {reason}.", nodes=[node("a", 20_000)])[0][2] == ""


@pytest.mark.parametrize(
    ("left", "shown", "fits"),
    [
        (-500, "0", ""), (0, "0", ""), (1, "0.001", "0.001"), (99, "0.099", "0.099"), (100, "0.1", "0.1"),
        (1_250, "1.25", "1.25"),
    ],
)  # fmt: skip
def test_a_pod_fits_with_exactly_what_is_left(left, shown, fits):
    found = short_of_mid((left, 9 * GIB), wanted=WANTED)
    assert found.text == f"a has {shown} cores left by its newest report, short by {11 - max(left, 0) / 1000:g} cores"
    assert found.fits_if == (f"the pod requested at most {fits} cores of {names.MID_CPU} (a now)" if fits else "")


@pytest.mark.parametrize(("left", "shown", "fits"), [(2 * GIB - 1, "1.9", "1.9"), (GIB + GIB // 2, "1.5", "1.5")])
def test_what_fits_of_the_memory_is_rounded_down(left, shown, fits):
    found = short_of_mid((0, left), wanted=Amounts(0, 3 * GIB))
    assert found.text.startswith(f"a has {shown} GiB left by its newest report, short by ")
    assert found.fits_if == f"the pod requested at most {fits} GiB of {names.MID_MEMORY} (a now)"


def test_the_resource_that_is_most_above_its_limit_is_named():
    found = over_limit(load({"cpu": 70, "memory": 80}, {"cpu": 100, "memory": 100}, {"cpu": 65, "memory": 60}))
    assert found == pod.Miss(
        "a", "a: memory 80 % with the pod, limit 60 %", "a used 5 % less of its cpu and a used 20 % less of its memory"
    )


def test_the_node_that_is_least_above_its_own_limit_is_the_nearest():
    found = over_limit(load({"cpu": 70}, {"cpu": 100}, {"cpu": 50}), load({"cpu": 90}, {"cpu": 100}, {"cpu": 85}))
    assert found == pod.Miss("b", "b: cpu 90 % with the pod, limit 85 %", "b used 5 % less of its cpu")


def test_the_mid_resource_with_the_largest_missing_share_is_named():
    found = short_of_mid((5_000, 6 * GIB), wanted=Amounts(10_000, 8 * GIB))  # a half and a quarter are missing
    assert found == pod.Miss(
        "a",
        "a has 5 cores left by its newest report, short by 5 cores",
        "the pod requested at most 5 cores of kubernetes.io/mid-cpu (a now) and "
        "the pod requested at most 6.0 GiB of kubernetes.io/mid-memory (a now)",
    )


def test_a_node_that_lacks_all_of_one_resource_has_no_request_that_fits():
    """Of 3 cores and 40 GiB, with 8.3 GiB left and no core, less memory alone does not fit."""
    assert short_of_mid((0, 8 * GIB + GIB // 3), wanted=Amounts(3_000, 40 * GIB)).fits_if == ""
