"""Keys of `koordctl top`, the rows that limits leave out, and the quota of a namespace."""

import pytest

from fleet.node_state import Amounts, NodeState
from fleet.pod_state import NamespaceState, PodState
from koordctl.cli import command, top
from tests.koordctl.parsing import parsed

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


@pytest.mark.parametrize(
    ("what", "key", "title"), [(what, *each) for what, of in TITLES.items() for each in of.items()]
)
def test_a_limit_is_in_the_unit_of_the_column(what, key, title):
    make, row = MADE[what]
    (table,) = make([row]).tables
    (cell,) = [cell for column, cell in zip(table.columns, table.rows[0], strict=True) if column.title == title]
    shown = float(cell.rstrip("%s"))
    assert top.KEYS[what][key].amount(row) == pytest.approx(shown)
    for flag, shown_with in (("above", [True, False, False]), ("below", [False, False, True])):
        limits = [shown - 0.5, shown, shown + 0.5]
        choices = [top._choice(parsed(["top", what, f"--{flag}", f"{key}={limit}"])) for limit in limits]
        assert [each.select([row]) == [row] for each in choices] == shown_with


def test_the_slack_of_a_pod_is_what_it_requests_and_does_not_use():
    assert top.KEYS["pods"]["slack"].amount(POD) == 6
    assert {what: set(keys) - {"name", "slack"} for what, keys in top.KEYS.items()} == {
        what: set(titles) for what, titles in TITLES.items()
    }


@pytest.mark.parametrize("what", TITLES)
def test_a_wrong_key_is_answered_by_those_that_there_are(what):
    keys = ["name", *TITLES[what], *(["slack"] if what == "pods" else [])]
    with pytest.raises(command.WrongUsage) as raised:
        top._choice(parsed(["top", what, "--sort", "size"]))
    assert str(raised.value) == f"--sort size: want one of {', '.join(keys)}, and :desc for the largest first"
    for limit in ("name=3", "size=3", "used=x", "used"):
        with pytest.raises(command.WrongUsage) as raised:
            top._choice(parsed(["top", what, "--below", limit]))
        assert str(raised.value).endswith(f"with one of the keys {', '.join(keys[1:])}")


def namespace(name, **changes):
    return NamespaceState(name, 1, 0, *[Amounts(0, 0)] * 6, **({"mid_quota": Amounts(8_000, GIB)} | changes))


def test_one_namespace_with_the_default_quota_brings_its_meaning_below_the_table():
    own, default = namespace("a"), namespace("b", mid_quota_is_default=True)
    broken = namespace("c", mid_quota=Amounts(0, 0), mid_quota_malformed=True)
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


NODES = [
    NodeState(name, allocatable=Amounts(10_000), used=used, mid=Amounts(mid))
    for name, used, mid in (
        ("a", Amounts(4_000), 1_000),
        ("b", Amounts(6_000), 2_000),
        ("c", Amounts(), 3_000),
        ("d", Amounts(5_000), None),
    )
]


def shown(*, sort="name", above=(), below=()):
    limits = [*(f"--above={limit}" for limit in above), *(f"--below={limit}" for limit in below)]
    choice = top._choice(parsed(["top", "nodes", f"--sort={sort}", *limits]))
    return "".join(node.name for node in choice.select(NODES))


@pytest.mark.parametrize(
    ("above", "below", "names"),
    [
        ([], [], "abcd"),
        (["used=40"], [], "bd"),
        (["used=40%"], [], "bd"),
        ([], ["used=60"], "ad"),
        (["used=40"], ["used=60"], "d"),
        (["mid=0"], [], "abc"),
        ([], ["mid=100"], "abc"),
        (["used=0", "mid=1"], [], "b"),
        ([], ["used=100", "mid=2"], "a"),
    ],
)
def test_limits_leave_out_what_is_not_known(above, below, names):
    assert shown(above=above, below=below) == names


@pytest.mark.parametrize(
    ("sort", "names"), [("used", "adbc"), ("used:asc", "adbc"), ("used:desc", "bdac"), ("name:desc", "dcba")]
)
def test_what_is_not_known_comes_last_in_either_direction(sort, names):
    assert shown(sort=sort) == names
