"""The bar of a node: its length, its parts, and where it is shown."""

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet.node_state import Amounts, NodeState
from koordctl.cli import output, top

pytestmark = pytest.mark.slow

_AMOUNT = st.none() | st.integers(0, 20_000)


def _node(allocatable=10_000, used=4_000, mid=1_000, requests=8_000, peak=5_200):
    return NodeState(
        "worker-1",
        allocatable=Amounts(allocatable),
        used=Amounts(used),
        mid_used=Amounts(mid),
        prod_requests=Amounts(requests),
        prod_peak=Amounts(peak),
    )


@pytest.mark.parametrize(
    ("node", "wanted"),
    [
        (_node(), "██████▓▓░░P░░░░░····"),
        (_node(mid=None, requests=None, peak=None), "████████············"),
        (_node(peak=10_000), "██████▓▓░░░░░░░░···P"),
        (_node(used=12_000, mid=2_000, requests=0, peak=0), "P███████████████████"),
        (_node(used=None), "-"),
        (_node(allocatable=None), "-"),
    ],
)
def test_used_requested_and_predicted_are_drawn_to_one_scale(node, wanted):
    assert top.node_bar(node) == wanted


@pytest.mark.parametrize(
    ("limit", "wanted"),
    [
        (65, "██████▓▓░░P░░│░░····"),
        (100, "██████▓▓░░P░░░░░···│"),
        (52, "██████▓▓░░P░░░░░····"),
        (20, "████│█▓▓░░P░░░░░····"),
    ],
)
def test_the_limit_of_the_scheduler_is_drawn_below_the_peak(limit, wanted):
    assert top.node_bar(_node(), limit) == wanted


@given(used=st.integers(0, 20_000), mid=_AMOUNT, requests=_AMOUNT, peak=_AMOUNT)
def test_a_bar_always_has_one_length_and_one_peak(used, mid, requests, peak):
    drawn = top.node_bar(_node(used=used, mid=mid, requests=requests, peak=peak))
    assert len(drawn) == top.BAR_LENGTH
    assert drawn.count("P") == (peak is not None)


def _shown(output_format="table", to=None, **flags):
    out = to or io.StringIO()
    output.show(top.nodes([_node()]), output_format, to=out, **flags)
    return out.getvalue()


def test_the_legend_explains_every_sign():
    head, row, legend = _shown().splitlines()
    assert "OF CPU" in head
    for sign in set(row.split()[1]):
        assert f"{sign} " in legend
    assert top.BAR_LEGEND not in _shown(headers=False)
    assert "│" not in legend
    assert top.bar_legend(65.0).endswith("\n        │ no pod is placed on a node above 65% (LoadAwareScheduling)")


@pytest.mark.parametrize(("columns", "is_shown", "has_age"), [(50, False, False), (80, True, False), (120, True, True)])
def test_a_narrow_terminal_gets_less_important_columns_last_and_then_no_bar(columns, is_shown, has_age, monkeypatch):
    class Terminal(io.StringIO):
        encoding = "utf-8"

        def isatty(self):
            return True

    monkeypatch.setenv("COLUMNS", str(columns))
    text = _shown(to=Terminal())
    assert ("OF CPU" in text) == is_shown
    assert ("░" in text) == is_shown
    assert ("AGE" in text) == has_age
    assert "40%" in text
