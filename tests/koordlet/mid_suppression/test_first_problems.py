"""When a problem of the suppression begins: after how many conflicts, and not before the first plan."""

import pytest

from tests.fakes import apiserver
from tests.koordlet.mid_suppression.suppressed_node import limited
from tests.koordlet.mid_suppression.test_suppressor import RESIZE, Node, patches


@pytest.fixture
async def server():
    async with apiserver.running() as running:
        yield running


async def test_the_third_conflict_in_a_row_is_a_problem(server):
    server.on("PATCH", RESIZE, apiserver.status(409, "Conflict", "modified", name="a"))
    node = Node(limited("a", 4000))
    for _second in range(120):
        await node.run(server, 1)
        if len(patches(server)) == 3:
            break
        assert "ResizeRefused" not in dict(node.suppressor.problems())
    assert "ResizeRefused" in dict(node.suppressor.problems())


def test_where_suppression_is_off_there_is_nothing_to_do_before_the_first_plan():
    node = Node(limited("a", 4000), threshold=None)
    assert node.suppressor.problems() is None
    node.plan()
    assert node.suppressor.problems() is None


def test_a_new_agent_has_counted_no_patch_and_no_failure():
    counts = Node(limited("a", 4000)).suppressor.counts
    assert (set(counts.patches.values()), counts.failures) == ({0}, 0)
