"""A node that is closed or opened shows it at once, and only once that is written."""

from tests.fakes import cluster
from tests.manager.evictions import budget_refuses
from tests.manager.mid_resource.eviction.test_mid_only_nodes import AT_ONCE, PLENTY, start, start_of_emptying

REFUSED = cluster.Refusal(403, "Forbidden", "n1", "refused by a policy")


async def rounds(short, count):
    """Let rounds pass without a report."""
    for _ in range(count):
        short.pass_seconds(10)
        await short.round()


async def test_a_closed_node_is_shown_as_closed_before_any_pod_has_left_it(short):
    await start(short, AT_ONCE, pods=3)
    budget_refuses(short.server)
    await short.report(**PLENTY)
    for _ in range(30):
        short.pass_seconds(10)
        await short.report(**PLENTY)
        assert short.annotation() is None
        assert short.closed() == ""
        await short.round()
        if short.annotation() is not None:
            break
    assert (short.evicted, short.closed()) == ([], "MidOnly")


async def test_a_node_that_cannot_be_opened_stays_closed_and_is_shown_as_open_once_it_is(short):
    await start_of_emptying(short)
    short.server.may_evict = {"other"}
    short.pass_seconds(61)
    short.server.refuse["PATCH", "nodes"] = REFUSED
    await rounds(short, 3)
    assert (short.annotation() is None, short.closed()) == (False, "MidOnly")
    assert "MidOnlyNodeReopened" not in short.reasons()
    short.server.refuse.clear()
    await rounds(short, 6)
    assert (short.annotation(), short.closed()) == (None, "")
    assert "MidOnlyNodeReopened" in short.reasons()
