"""An underused node on which a pod that no autoscaler moves begins to run while it is emptied."""

from tests.manager.mid_resource.eviction.test_mid_only_nodes import PLENTY, UNDERUSED, start, texts

NODES = ("n1", "n2")
PINNED = {"karpenter.sh/do-not-disrupt": "true"}


async def emptying(short, document=UNDERUSED):
    """Let the first of six Mid pods of n1 be evicted; n2 is a place for them, and stays as it is."""
    await start(short, document, nodes=NODES, pods=6)
    short.add_prod_pod("web", "n1", requests={"cpu": "1"})
    short.add_prod_pod("other", "n2", annotations=PINNED)
    for _ in range(60):
        for node in NODES:
            await short.report(node, **PLENTY)
        await short.round()
        if short.evicted:
            break
        short.pass_seconds(10)
    assert (len(short.evicted), short.annotation("n1")["trigger"]) == (1, "UnderusedNode")


async def test_it_opens_at_once_and_is_left_alone_for_an_hour_also_after_that_pod(short):
    await emptying(short)
    short.add_prod_pod("pinned", "n1", annotations=PINNED)
    short.pass_seconds(13)
    await short.round()
    assert (len(short.evicted), short.annotation("n1")) == (1, None)
    (text,) = texts(short, "MidOnlyNodeReopened")
    assert text == "accepts new Mid pods again: the pod shop/pinned runs there, which no autoscaler moves"
    short.server.remove("pods", "pinned", "shop")
    await short.minutes(55, nodes=NODES, per_round=30, **PLENTY)
    assert (len(short.evicted), short.annotation("n1")) == (1, None)
    await short.minutes(10, nodes=NODES, per_round=30, **PLENTY)
    assert len(short.evicted) > 1
