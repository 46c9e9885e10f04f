"""Keys of `koordctl top`: the unit of each is that of its column, and the flags name every key."""

import argparse

import pytest

from fleet.node_state import Amounts, NodeState
from fleet.pod_state import NamespaceState, PodState
from koordctl.cli import command, top, top_command

GIB = 2**30
NODE = NodeState(
    "n1", Amounts(10_000, 10 * GIB), used=Amounts(1_000, 2 * GIB), prod_requests=Amounts(3_000, GIB),
    prod_peak=Amounts(4_000, GIB), mid=Amounts(5_000, 6 * GIB), mid_requests=Amounts(7_000, GIB),
    sample_age_seconds=8.0,
)  # fmt: skip
POD = PodState("shop", "web-0", "n1", "prod", "Running", Amounts(9_000, 2 * GIB), Amounts(3_000, 4 * GIB))
NAMESPACE = NamespaceState(
    "shop", 11, 12, Amounts(1_000, GIB), Amounts(2_000, GIB), Amounts(3_000, GIB), Amounts(4_000, GIB),
    Amounts(5_000, GIB), Amounts(6_000, GIB), Amounts(7_000, GIB),
)  # fmt: skip
TITLES = {
    "nodes": {"used": "USED", "memory": "MEMORY USED", "peak": "PROD PEAK", "requests": "PROD REQ", "mid": "MID",
              "age": "AGE"},
    "pods": {"used": "CPU USED", "memory": "MEMORY USED", "requests": "CPU REQ"},
    "namespaces": {"pods": "PODS", "used": "PROD USED", "requests": "PROD REQ", "mid": "MID REQ", "held": "MID HELD",
                   "quota": "MID QUOTA"},
}  # fmt: skip
MADE = {"nodes": (top.nodes, NODE), "pods": (top.pods, POD), "namespaces": (top.namespaces, NAMESPACE)}


def parsed(*words):
    parser = argparse.ArgumentParser()
    top_command.add_arguments(parser)
    return parser.parse_args(words)


@pytest.mark.parametrize(
    ("what", "key", "title"), [(what, *each) for what, of in TITLES.items() for each in of.items()]
)
def test_a_limit_is_in_the_unit_of_the_column(what, key, title):
    make, row = MADE[what]
    (table,) = make([row]).tables
    (cell,) = [cell for column, cell in zip(table.columns, table.rows[0], strict=True) if column.title == title]
    shown = float(cell.rstrip("%s"))
    assert top_command.KEYS[what][key].amount(row) == pytest.approx(shown)
    for flag, shown_with in (("above", [True, False, False]), ("below", [False, False, True])):
        limits = [shown - 0.5, shown, shown + 0.5]
        choices = [top_command._choice(parsed(what, f"--{flag}", f"{key}={limit}")) for limit in limits]
        assert [each.of([row]) == [row] for each in choices] == shown_with


def test_the_slack_of_a_pod_is_what_it_requests_and_does_not_use():
    assert top.POD_KEYS["slack"].amount(POD) == 6
    assert {what: set(keys) - {"name", "slack"} for what, keys in top_command.KEYS.items()} == {
        what: set(titles) for what, titles in TITLES.items()
    }


@pytest.mark.parametrize("what", TITLES)
def test_a_wrong_key_is_answered_by_those_that_there_are(what):
    keys = ["name", *TITLES[what], *(["slack"] if what == "pods" else [])]
    with pytest.raises(command.WrongUsage) as raised:
        top_command._choice(parsed(what, "--sort", "size"))
    assert str(raised.value) == f"--sort size: want one of {', '.join(keys)}, and :desc for the largest first"
    for limit in ("name=3", "size=3", "used=x", "used"):
        with pytest.raises(command.WrongUsage) as raised:
            top_command._choice(parsed(what, "--below", limit))
        assert str(raised.value).endswith(f"with one of the keys {', '.join(keys[1:])}")


def test_names_of_pods_are_in_the_order_of_their_namespaces():
    names = [("shop", "b"), ("shop", "a"), ("etl", "c")]
    rows = [PodState(namespace, name, "", "prod", "Pending", Amounts(), Amounts()) for namespace, name in names]
    found = top_command._choice(parsed("pods")).of(rows)
    assert [(each.namespace, each.name) for each in found] == sorted(names)


def namespace(name, **changes):
    return NamespaceState(name, 1, 0, *[Amounts(0, 0)] * 6, **({"mid_quota": Amounts(8_000, GIB)} | changes))


def test_one_namespace_with_the_default_quota_brings_its_meaning_below_the_table():
    own, default = namespace("a"), namespace("b", is_quota_default=True)
    broken = namespace("c", mid_quota=Amounts(0, 0), is_quota_malformed=True)
    found = top.namespaces([own, default, broken])
    assert [row[6] for row in found.tables[0].rows] == ["8.0", "8.0*", "malformed"]
    assert list(found.tail) == ["", top.DEFAULT_QUOTA]
    assert list(top.namespaces([own, broken]).tail) == []
    assert [(each.mid_quota_is_default, each.mid_quota_malformed) for each in found.data.namespaces] == [
        (False, False), (True, False), (False, True),
    ]  # fmt: skip


@pytest.mark.parametrize("what", MADE)
def test_without_a_row_the_answer_is_no(what):
    make, row = MADE[what]
    assert [make(rows).exit_code for rows in ([], [row])] == [1, 0]
    assert make([]).legend == ""
    assert make([row]).names == [{"nodes": "node/n1", "pods": "pod/web-0", "namespaces": "namespace/shop"}[what]]


def test_each_field_of_the_documents_has_the_amounts_of_its_name():
    (node,) = top.nodes([NODE]).data.nodes
    fields = ("used", "prod_requests", "prod_peak", "mid", "mid_requests")
    assert [getattr(node, name).cpu_millis for name in fields] == [1_000, 3_000, 4_000, 5_000, 7_000]
    (found,) = top.namespaces([NAMESPACE]).data.namespaces
    fields = ("prod_requests", "prod_used", "mid_requests", "mid_held", "mid_used", "other_used", "mid_quota")
    assert [getattr(found, name).cpu_millis for name in fields] == [1_000 * number for number in range(1, 8)]
    assert (found.pods, found.unmeasured_pods) == (11, 12)
    (pod,) = top.pods([POD]).data.pods
    assert (pod.requests.cpu_millis, pod.used.cpu_millis) == (9_000, 3_000)


def test_a_pod_without_a_node_has_a_dash_in_the_table_and_none_in_the_document():
    waiting = PodState("shop", "b", "", "mid", "Pending", Amounts(), Amounts())
    found = top.pods([POD, waiting])
    assert found.tables[0].rows == [
        ("shop", "web-0", "n1", "prod", "9.0", "3.0", "2.0", "4.0", "Running"),
        ("shop", "b", "-", "mid", "-", "-", "-", "-", "Pending"),
    ]
    assert [each.node for each in found.data.pods] == ["n1", ""]


def test_a_row_of_nodes_has_shares_of_its_allocatable_and_what_is_not_known_is_a_dash():
    bare = NodeState("n2", reason="NeverReported")
    known, unknown = ([*row[:1], *row[2:]] for row in top.nodes([NODE, bare]).tables[0].rows)
    assert known == ["n1", "10.0", "10%", "30%", "40%", "5.0", "7.0", "20%", "6.0", "", "8s", ""]
    assert unknown == ["n2", *["-"] * 8, "", "-", "NeverReported"]


def test_a_row_of_namespaces_has_its_sums_in_order():
    (row,) = top.namespaces([NAMESPACE]).tables[0].rows
    assert row == ("shop", "11", "1.0", "2.0", "3.0", "4.0", "7.0", "5.0", "6.0", "12")


@pytest.mark.parametrize(
    ("what", "left", "wide"),
    [
        ("nodes", ["NODE", "OF CPU", "PREDICTOR", "REASON"], ["MID MEMORY", "PREDICTOR"]),
        ("pods", ["NAMESPACE", "POD", "NODE", "BAND", "PHASE"], ["PHASE"]),
        ("namespaces", ["NAMESPACE"], []),
    ],
)
def test_numbers_are_at_the_right_and_only_bars_are_drawn_and_may_be_left_out(what, left, wide):
    make, row = MADE[what]
    columns = make([row]).tables[0].columns
    assert [each.title for each in columns if not each.right] == left
    assert [each.title for each in columns if each.wide] == wide
    bars = [(each.title, each.optional) for each in columns if each.is_drawing or each.optional]
    assert bars == ([("OF CPU", True)] if what == "nodes" else [])
    assert all(each.is_drawing == each.optional for each in columns)
