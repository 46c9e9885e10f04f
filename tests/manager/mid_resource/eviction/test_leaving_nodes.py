"""A node that is about to be removed gives up its Mid pods in time; one that is cordoned keeps them."""

import itertools

import pytest

from tests.manager.evictions import EVICT, budget_refuses

DISRUPTED = {"spec": {"taints": [{"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}]}}
ENOUGH = (4000, 10_000)


async def start(short, pods=4, document=EVICT, **given):
    await short.start(document, **given)
    for index in range(pods):
        short.add_pod(f"m{index}")
    await short.report(calculated=(8000, 16_000))
    return short


async def change(short, patch):
    short.server.patch("nodes", "n1", patch)
    await short.world.settle()


async def seconds(short, count):
    for _ in range(count):
        await short.round()
        short.pass_seconds(1)


def status(short):
    found = short.world.mid_status()
    return found.get("closed", ""), found.get("detail", "")


async def test_its_mid_pods_leave_within_a_minute_in_order_and_no_room_is_published(short):
    await start(short)
    short.add_pod("first", annotations={"koordinator.sh/eviction-priority": "-1"})
    await short.report(calculated=(8000, 16_000))
    await seconds(short, 10)
    assert short.evicted == []
    await change(short, DISRUPTED)
    assert status(short) == ("Leaving", "Leaving: taint karpenter.sh/disrupted")
    assert short.world.mid_of()[0] == 5000, "what its pods request, and no more"
    await seconds(short, 60)
    assert short.evicted == ["first", "m0", "m1", "m2", "m3"]
    texts = [each["message"] for each in short.server.all("events") if each["reason"] == "MidPodEvicted"]
    assert "evicted from n1: the node is about to be removed (taint karpenter.sh/disrupted)" in texts
    assert any(text.endswith("once it stays and 110 % of what its Mid pods request are calculated for 300 s, or 300 s "
                             "after its last eviction if no report shows a shortage") for text in texts)  # fmt: skip
    await seconds(short, 60)
    assert "MidEvictionWithoutPod" not in short.reasons(), "a node without Mid pods is done"


async def test_all_of_many_pods_leave_in_time_whatever_the_interval_of_a_node_is(short):
    await start(short, pods=9, document={**EVICT, "midEviction": {"mode": "evict", "nodeIntervalSeconds": 86400}})
    await change(short, DISRUPTED)
    await seconds(short, 61)
    assert len(short.evicted) == 9


@pytest.mark.parametrize("emergency", ["none", "drain"])
async def test_all_of_a_full_node_leave_within_a_minute_where_the_rate_permits_it(short, emergency):
    document = {"enable": True, "midEviction": {"mode": "evict", "clusterPerMinute": 11}}
    await start(short, pods=110, document=document)
    await change(short, DISRUPTED)
    short.world.configure({**document, "midEmergency": emergency})
    await short.world.config.refresh()
    await short.world.settle()
    evicted = []
    for _ in range(60):
        await seconds(short, 1)
        evicted.append(len(short.evicted))
    assert evicted[-1] == 110
    assert max(after - before for before, after in itertools.pairwise([0, *evicted])) <= 3, "no burst"
    assert {each["message"].partition(": ")[2].partition(" (")[0] for each in short.server.all("events")
            if each["reason"] == "MidPodEvicted"} >= {"the node is about to be removed"}  # fmt: skip


async def test_other_nodes_do_not_wait_for_one_that_leaves(short):
    await start(short, pods=8, document={"enable": True, "midEviction": {"mode": "evict", "clusterPerMinute": 1}},
                nodes=("n1", "n2"))  # fmt: skip
    for name in "xyz":
        short.add_pod(name, 2000, node="n2")
    await short.minutes(2, nodes=("n2",))
    await change(short, DISRUPTED)
    await seconds(short, 15)
    assert len(short.evicted) > 1
    assert not {"x", "y", "z"} & set(short.evicted)
    await short.report("n2")
    await seconds(short, 2)
    assert len({"x", "y", "z"} & set(short.evicted)) == 1


async def test_an_autoscaler_that_takes_its_taint_back_evicts_all_pods_once_in_an_hour(short):
    """Karpenter sets its taint before the replacement is ready, and takes it back if that fails."""
    await start(short)
    evicted = []
    for minutes in (9, 9, 60):
        await change(short, DISRUPTED)
        await seconds(short, 60)
        assert status(short)[0] == "Leaving"
        evicted.append(len(short.evicted))
        short.end_pods()
        await change(short, {"spec": {"taints": None}})
        await short.minutes(minutes, calculated=ENOUGH)
        if minutes == 9 and not short.pods_on("n1"):
            short.add_pod("next")
    await change(short, DISRUPTED)
    await seconds(short, 60)
    assert [*evicted, len(short.evicted)] == [4, 4, 4, 5]


@pytest.mark.parametrize(("cause", "seconds"), [("leaves", 10), ("drain", 90)])
async def test_a_tenant_whose_budget_refuses_keeps_the_pods_of_no_other_from_being_asked_in_time(short, cause, seconds):
    document = {"enable": True, "midEviction": {"mode": "evict", "clusterPerMinute": 11}}
    await short.start(document)
    for index in range(100):
        short.add_pod(f"a{index}", 10, 10)
    for index in range(5):
        short.add_pod(f"z{index}", 10, 10, namespace="zzz")
    budget_refuses(short.server)
    await short.report(calculated=(10_000, 16_000))
    if cause == "drain":
        short.world.configure({**document, "midEmergency": "drain"})
        await short.world.config.refresh()
        await short.world.settle()
    else:
        await change(short, DISRUPTED)
    for _ in range(seconds):
        await short.round()
        short.pass_seconds(1)
    assert len(short.evicted) == 5
    for _ in range(110 if cause == "leaves" else 1100):
        await short.round()
        short.pass_seconds(1)
    asked = {path for _, path, _ in short.server.writes if path.endswith("/eviction")}
    assert len(asked) == 105, "each is asked once before one that was refused is asked again"


async def test_nothing_of_a_node_that_left_concerns_one_of_the_same_name(short):
    await start(short, pods=0)
    await change(short, DISRUPTED)
    await short.round()
    short.add_pod("next")
    metric = short.server.get("nodemetrics", "n1")
    short.server.remove("nodes", "n1")
    short.world.add_node("n1")
    short.server.add("nodemetrics", {"metadata": {"name": "n1"}, "spec": metric["spec"]})
    await short.report(calculated=(8000, 16_000))
    writes = len(short.server.writes)
    await seconds(short, 60)
    assert short.evicted == []
    assert len(short.server.writes) - writes <= 1
