"""Which rows `top` shows: a row of which a value is not known is neither above nor below a limit."""

import argparse

import pytest

from fleet.node_state import Amounts, NodeState
from koordctl.cli import top_command
from koordctl.cli.command import WrongUsage

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
    options = argparse.Namespace(what="nodes", sort=sort, above=list(above), below=list(below))
    return "".join(each.name for each in top_command._choice(options).of(NODES))


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


@pytest.mark.parametrize("wrong", [{"sort": "size"}, {"sort": "used:up"}, {"above": ["name=3"]}, {"below": ["used=x"]}])
def test_an_unknown_key_or_number_is_refused(wrong):
    with pytest.raises(WrongUsage, match="want "):
        shown(**wrong)
