"""A node that is emptied, and meanwhile frozen, cordoned, drained or about to be removed."""

import pytest

from tests.manager.evictions import TENANT
from tests.manager.mid_resource.eviction.test_mid_only_nodes import (
    AT_ONCE,
    PLENTY,
    configure,
    start_of_emptying,
    texts,
)

FROZEN = {**AT_ONCE, "midEmergency": "freeze"}
LEAVES = [{"key": "ToBeDeletedByClusterAutoscaler", "effect": "NoSchedule"}]


async def patch(short, spec):
    short.server.patch("nodes", "n1", {"spec": spec})
    await short.world.settle()


async def interrupt(short, how):
    await (configure(short, FROZEN) if how == "freeze" else patch(short, {"unschedulable": True}))


async def go_on(short, how):
    await (configure(short, AT_ONCE) if how == "freeze" else patch(short, {"unschedulable": None}))


@pytest.mark.parametrize("how", ["freeze", "cordon"])
async def test_mid_pods_for_which_nothing_is_calculated_stay_while_it_is_interrupted(short, how):
    """Next to nothing is calculated for a node without Prod."""
    await start_of_emptying(short)
    await interrupt(short, how)
    await short.minutes(10, calculated=(0, 0))
    assert (len(short.evicted), short.annotation()["trigger"]) == (1, "MidOnlyNode")
    await go_on(short, how)
    await short.minutes(2, **PLENTY)
    assert (len(short.evicted), short.closed()) == (6, "MidOnly")


@pytest.mark.parametrize("how", ["freeze", "cordon"])
async def test_high_memory_evicts_also_then_and_the_node_is_emptied_afterwards(short, how):
    await start_of_emptying(short)
    await interrupt(short, how)
    of_pod = {"podUsage": {"resources": {"memory": "800"}}, "namespace": TENANT}
    used = [{"name": f"n1-m{index}", **of_pod} for index in range(1, 6)]
    await short.minutes(4, memory=(10_000, 4_001), podsMetric=used, **PLENTY)
    assert len(short.evicted) == 2
    assert short.annotation()["trigger"] == "MidOnlyNode"
    await go_on(short, how)
    await short.minutes(10, **PLENTY)
    assert (len(short.evicted), short.closed()) == (6, "MidOnly"), "calm reports do not open it"


async def test_a_taint_that_is_taken_back_does_not_open_it(short):
    await start_of_emptying(short)
    await patch(short, {"taints": LEAVES})
    await short.minutes(2, **PLENTY)
    assert (len(short.evicted), short.closed()) == (6, "Leaving")
    await patch(short, {"taints": None})
    short.end_pods()
    await short.minutes(12, **PLENTY)
    assert short.closed() == "MidOnly"


async def test_a_drain_that_is_over_does_not_open_it(short):
    await start_of_emptying(short)
    await configure(short, {**AT_ONCE, "midEmergency": "drain"})
    await short.minutes(2, **PLENTY)
    assert (len(short.evicted), short.closed()) == (6, "Frozen")
    short.end_pods()
    await configure(short, AT_ONCE)
    await short.minutes(12, **PLENTY)
    assert short.closed() == "MidOnly"


@pytest.mark.parametrize("how", ["drain", "leaves"])
async def test_the_event_of_each_eviction_states_when_a_node_opens_that_was_closed_to_be_emptied(short, how):
    await start_of_emptying(short)
    if how == "drain":
        await configure(short, {**AT_ONCE, "midEmergency": "drain"})
    else:
        await patch(short, {"taints": LEAVES})
    await short.minutes(2, **PLENTY)
    on_node = [each for each in texts(short, "MidPodEvicted") if each.startswith("evicted the Mid pod")]
    assert len(on_node) == len(short.evicted) == 6
    assert all(each.endswith("; the node accepts new Mid pods again once another pod runs there") for each in on_node)
