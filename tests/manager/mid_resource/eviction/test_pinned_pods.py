"""A pod that no autoscaler moves comes to a node that is emptied of Mid pods because its other pods fit elsewhere."""

import pytest

from manager.mid_resource.eviction.mid_only import LEFT_ALONE_FOR
from manager.mid_resource.eviction.shortage import Trigger
from manager.mid_resource.reasons import Closed
from tests.manager.mid_resource.eviction.test_mid_only import at, keeper, pod, survey, underused, why_reopened
from tests.manager.mid_resource.eviction.test_mid_only_nodes import PLENTY, UNDERUSED, start, texts

NODES = ("n1", "n2")
WHY = "the pod shop/pinned runs there, which no autoscaler moves"


async def start_of_emptying(short):
    await start(short, UNDERUSED, nodes=NODES, pods=6)
    short.add_prod_pod(requests={"cpu": "1"})
    short.add_prod_pod("stays", node="n2", annotations={"karpenter.sh/do-not-disrupt": "true"})
    for node in NODES:
        await short.report(node, **PLENTY)
    while not short.evicted:
        short.pass_seconds(10)
        await short.report(**PLENTY)
        await short.report("n2", **PLENTY)
        await short.round()
    assert (short.closed("n1"), len(short.evicted)) == ("Underused", 1)


@pytest.mark.parametrize(
    "pinned",
    [
        {"owner": ""},
        {"annotations": {"karpenter.sh/do-not-disrupt": "true"}},
        {"annotations": {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"}},
    ],
)
async def test_the_node_keeps_the_mid_pods_that_are_left_and_opens(short, pinned):
    await start_of_emptying(short)
    short.add_prod_pod("pinned", **pinned)
    short.pass_seconds(13)
    await short.round()
    assert len(short.evicted) == 1, "the pods are listed before each eviction"
    await short.minutes(3, nodes=NODES, **PLENTY)
    assert (len(short.evicted), short.annotation(), short.closed()) == (1, None, "")
    assert texts(short, "MidOnlyNodeReopened") == [f"accepts new Mid pods again: {WHY}"]
    short.server.remove("pods", "pinned", "shop")
    await short.minutes(8, nodes=NODES, **PLENTY)
    assert (len(short.evicted), short.closed()) == (1, ""), "it is left alone"


async def test_a_pod_that_may_be_moved_does_not_interrupt_the_emptying(short):
    await start_of_emptying(short)
    short.add_prod_pod("moves", requests={"cpu": "100m"})
    await short.minutes(2, nodes=NODES, **PLENTY)
    assert (len(short.evicted), short.closed()) == (6, "Underused")


def test_the_node_is_left_alone_for_an_hour_so_that_such_a_pod_does_not_make_mid_pods_go_round():
    found = survey(a=underused(closed=Closed.UNDERUSED))
    found.listed("a", [keeper(), keeper(None, "shop/pinned")], [pod("m")], at(0))
    assert why_reopened(found, trigger=Trigger.UNDERUSED) == WHY
    found.observe("a", underused(), at(0))
    end = LEFT_ALONE_FOR.total_seconds()
    for seconds, chosen in ((end - 1, 0), (end, 1)):
        found.listed("a", [keeper()], [pod("m")], at(seconds))
        assert len(found.mid_only((), at(seconds))) == chosen
