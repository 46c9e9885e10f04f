"""What the explanation of a node states about the next eviction is what the evictor does next."""

import pytest

from tests.manager.evictions import EVICT, TENANT, Short
from tests.manager.mid_resource.eviction.test_emptying import AT_ONCE, PLENTY, configure, start_of_emptying
from tests.manager.mid_resource.eviction.test_leaving_nodes import DISRUPTED, change, start
from tests.manager.test_mid_explanation import explain

CORDONED = {"spec": {"unschedulable": True}}
ONLY_MEMORY = "only high memory of the node evicts Mid pods: "


async def sentences(world):
    return list((await explain(world)).eviction)


def starting(found, text):
    return [each for each in found if each.startswith(text)]


async def high_memory(short):
    of_pod = {"podUsage": {"resources": {"memory": "1000"}}, "namespace": TENANT}
    used = [{"name": each["metadata"]["name"], **of_pod} for each in short.pods_on("n1")]
    await short.report(memory=(11_000, 4_000), podsMetric=used, calculated=(0, 0))


@pytest.mark.parametrize("document", [EVICT, {"enable": True}, {"enable": True, "midEviction": {"mode": "off"}}])
async def test_of_a_node_that_leaves_the_next_pod_is_named_without_a_report_that_shows_a_shortage(world, document):
    short = await start(Short(world), document=document)
    await change(short, DISRUPTED)
    found = await sentences(world)
    mode = document.get("midEviction", {}).get("mode")
    does = {"evict": "is", "off": ""}.get(mode, "would be")
    cause = "the node is about to be removed (taint karpenter.sh/disrupted)"
    advice = "; midEviction.mode advise evicts none" if does == "would be" else ""
    assert found == ([f"next, tenant/m0 {does} evicted: {cause}{advice}"] if does else [])
    if mode == "evict":
        await short.round()
        assert short.evicted[0] == "m0"


async def test_nothing_is_next_on_a_node_that_takes_no_part_or_has_no_mid_pod_left(world):
    short = await start(Short(world), document={**EVICT, "enable": False})
    await change(short, DISRUPTED)
    assert await sentences(world) == []
    await configure(short, EVICT)
    for each in short.pods_on("n1"):
        short.server.remove("pods", each["metadata"]["name"], TENANT)
    assert await sentences(world) == []


async def test_of_a_node_that_is_emptied_the_next_pod_is_named_whatever_its_reports_show(world):
    short = Short(world)
    await start_of_emptying(short)
    closed, opens, following = await sentences(world)
    assert closed.endswith("(MidOnlyNode)")
    assert opens == "the node accepts new Mid pods again once another pod runs there, or the autoscaler keeps it"
    assert following == "next, tenant/n1-m1 is evicted: only Mid pods and pods of DaemonSets run on the node"


@pytest.mark.parametrize(("start_it", "pod", "why"), [(start_of_emptying, {}, "the pod shop/pinned runs there")])
async def test_another_pod_that_ends_the_emptying_is_named(world, start_it, pod, why):
    short = Short(world)
    await start_it(short)
    short.add_prod_pod("pinned", **pod)
    found = await sentences(world)
    assert found[2:] == [f"no Mid pod is evicted, and the node opens again: {why}"]


@pytest.mark.parametrize("how", ["cordon", "freeze"])
@pytest.mark.parametrize("is_short", [False, True])
async def test_where_the_emptying_is_interrupted_no_pod_is_next_until_the_memory_is_high(world, how, is_short):
    short = Short(world)
    await start_of_emptying(short)
    if how == "cordon":
        await change(short, CORDONED)
    else:
        await configure(short, {**AT_ONCE, "midEmergency": "freeze"})
    await short.report(**({"calculated": (0, 0)} if is_short else PLENTY))
    why = "the node is cordoned (spec.unschedulable)" if how == "cordon" else "midEmergency is freeze"
    found = await sentences(world)
    assert found[2:] == [f"{ONLY_MEMORY}{why}", *found[3:]]
    assert starting(found, "next") == []
    drain = [each for each in found if "drain" in each]
    assert drain == (
        [] if how == "cordon" else ["where midEmergency is drain and not freeze, every Mid pod is evicted"]
    )
    short.pass_seconds(60)
    await high_memory(short)
    (following,) = starting(await sentences(world), "next")
    assert following.startswith("next, tenant/n1-m1 is evicted, once 3 consecutive reports show it: the node uses 75 %")
