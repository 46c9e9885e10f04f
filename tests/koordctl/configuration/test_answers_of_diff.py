"""Answer of `koordctl config diff` for given nodes: order, counts, names, and remarks."""

import pytest

from fleet.node_state import UNKNOWN, Amounts
from fleet.what_if import NodeChange, WhatIfOutcome
from koordctl.configuration import diff
from koordctl.configuration.diff import Comparison
from manager.slo_config.explanation import Value

GIB = 2**30


def node(name, before=(1_000, GIB), after=(2_000, 2 * GIB), asked=(0, 0), **more):
    outcomes = (WhatIfOutcome(Amounts(*each), "Published") for each in (before, after))
    known = {"predicts_otherwise": False, "warm_pods": 0, "cold_pods": 0} | more
    return NodeChange(name, *outcomes, Amounts(*before), Amounts(*asked), **known)


def answer(*nodes, most=0, **more):
    return diff.answer(Comparison("x", nodes, more.pop("keys", []), **more), most)


def test_numbers_are_at_the_right():
    (table,) = answer(node("a")).tables
    at_the_right = [column.title for column in table.columns if column.right]
    assert at_the_right == [
        "MID CPU", "THEN", "CHANGE", "MID MEMORY", "THEN", "CHANGE", "MID REQ", "PUBLISHED",
    ]  # fmt: skip


def test_the_largest_change_of_cpu_is_first_then_that_of_memory_then_the_name():
    nodes = [
        node("memory", after=(1_000, 4 * GIB)),
        node("more", after=(3_000, GIB)),
        node("b", after=(2_000, 2 * GIB)),
        node("a", after=(2_000, 2 * GIB)),
        node("less", after=(2_000, 0), before=(5_000, GIB)),
        node("most", after=(2_000, 9 * GIB)),
        node("same", after=(1_000, GIB)),
    ]
    found = answer(*nodes)
    assert [row[0] for row in found.tables[0].rows] == ["less", "more", "most", "a", "b", "memory"]
    assert found.data.changed_nodes == 6
    assert found.names == [f"node/{name}" for name in ("less", "more", "most", "a", "b", "memory")]


@pytest.mark.parametrize(("short", "text"), [(1, "n0"), (3, "n0, n1, n2"), (4, "n0, n1, n2 and 1 more nodes"),
                                             (6, "n0, n1, n2 and 3 more nodes")])  # fmt: skip
def test_three_nodes_are_named_and_the_others_counted(short, text):
    nodes = [node(f"n{number}", before=(3_000, GIB), after=(1_000, GIB), asked=(2_000, 0)) for number in range(short)]
    (line,) = [line for line in answer(*nodes).head if "less than the Mid pods request" in line]
    assert f" request on {text}: no new Mid pod fits there" in line


@pytest.mark.parametrize("others", [(True, False), (True, True)])
def test_another_prediction_of_any_node_is_a_change(others):
    same = {"after": (1_000, GIB)}
    found = answer(*(node(f"n{number}", predicts_otherwise=each, **same) for number, each in enumerate(others)))
    assert found.exit_code == 1
    assert any(f"nodePredictPolicy changes on {sum(others)} nodes" in line for line in found.tail)
    unchanged = answer(node("a", **same), node("b", **same))
    assert (unchanged.exit_code, unchanged.head, unchanged.tail) == (0, ["x: nothing would change"], [])


def test_without_numbers_of_the_gate_it_is_no_remark():
    assert [line for line in answer(node("a")).tail if "take-back gate" in line] == []
    one = answer(node("a"), gated_nodes=1).tail
    assert any("holds on 1 nodes" in line and "(midEviction.mode is not evict)" in line for line in one)
    both = answer(node("a"), gated_nodes=3, evicting_nodes=1).tail
    assert any("holds on 3 nodes" in line and "(1 of them evict, if" in line for line in both)


def test_cold_pods_are_counted_among_all():
    found = answer(node("a", warm_pods=5, cold_pods=1), node("b", warm_pods=2, cold_pods=0))
    assert any(line.startswith("1 of 8 measured pods are cold") for line in found.tail)
    assert not any("cold" in line for line in answer(node("a", warm_pods=5)).tail)


def test_sums_are_over_the_nodes_that_are_known_on_both_sides():
    found = answer(node("a"), node("b", after=(4_000, GIB)), node("c", before=UNKNOWN), node("d", after=UNKNOWN))
    assert found.head[1:3] == ["  Mid CPU 2.0 -> 6.0 cores (+200 %)", "  Mid memory 2.0 -> 3.0 GiB (+50 %)"]
    assert found.head[-1].endswith("are not known: c, d")


def test_from_nothing_there_is_no_share():
    assert answer(node("a", before=(0, 0))).head[1] == "  Mid CPU 0.0 -> 2.0 cores"


def test_keys_without_an_effect_or_a_change_are_left_out():
    def values(*given):
        return [Value(key, value, "defaults", (), effective) for key, value, effective in given]

    before = values(("a", 1, True), ("b", True, True), ("c", 1, False))
    after = values(("a", 1, True), ("b", False, True), ("c", 2, False), ("d", 3, True))
    keys = diff.key_changes(before, after)
    assert [(each.key, each.before, each.after) for each in keys] == [("b", True, False), ("d", None, 3)]
    table = answer(keys=keys).tables[-1]
    assert [tuple(row) for row in table.rows] == [
        ("b", "true", "false", "defaults"), ("d", "not set", "3", "defaults"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (node("b", after=(1_001, GIB)), node("a", after=(1_000, 9 * GIB))),
        (node("b", after=(2_000, GIB + 1)), node("a", after=(2_000, GIB))),
    ],
)
def test_the_least_change_is_before_none(first, second):
    assert answer(second, first).names == ["node/b", "node/a"]


@pytest.mark.parametrize(("most", "gaining"), [(0, 4), (1, 1), (2, 2), (4, 4), (5, 4)])
def test_so_many_nodes_that_gain_are_shown_and_the_others_counted(most, gaining):
    found = answer(*(node(f"n{number}") for number in range(4)), most=most)
    assert len(found.tables[0].rows) == gaining
    more = f"and {4 - gaining} more nodes that only gain (--nodes 0 shows all)"
    assert (found.tail[1] == more) is (gaining < 4)
    assert sum("more nodes" in line for line in found.tail) == (gaining < 4)


def test_a_row_has_both_sides_and_the_change_of_each_resource():
    given = node("a", before=(50_000, 300 * GIB), after=(150_000, 200 * GIB), asked=(20_000, GIB))
    (table,) = answer(given).tables
    assert tuple(table.rows[0]) == (
        "a", "50.0", "150.0", "+100.0", "300.0", "200.0", "-100.0", "20.0", "50.0", "Published", "! less",
    )  # fmt: skip
    assert [column.title for column in table.columns if column.wide] == ["PUBLISHED"]


def test_an_unknown_change_of_one_resource_is_shown_as_unknown():
    (table,) = answer(node("a", before=(None, GIB), after=(None, 2 * GIB))).tables
    assert (table.rows[0][3], table.rows[0][6]) == ("-", "+1.0")
