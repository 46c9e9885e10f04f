"""The right to evict while the apiserver does not answer."""

import datetime as dt
import json

import pytest

from manager.mid_resource.eviction.records import Rights
from tests.fakes import cluster
from tests.manager.mid_resource.eviction.test_emptying import AT_ONCE, PLENTY, start

AWAY = cluster.Refusal(500, "InternalError", message="etcd is away")


@pytest.mark.parametrize("fails", ["no answer", "no authorizer"])
async def test_a_failed_request_changes_no_right(world, caplog, fails):
    world.server.may_evict = {""}
    assert await world.rights.refresh()
    world.now += dt.timedelta(minutes=2)
    if fails == "no answer":
        world.server.refuse["POST", "selfsubjectaccessreviews"] = AWAY
    else:
        world.server.evaluation_error = "the webhook authorizer is away"
    assert not await world.rights.refresh()
    assert world.rights.granted
    assert "cannot ask whether pods may be evicted" in caplog.text
    world.server.refuse.clear()
    world.server.evaluation_error = ""
    world.server.may_evict = set()
    assert await world.rights.refresh()
    assert not world.rights.granted


CALIBRATED = {"enable": True, "midEviction": {"mode": "evict"}, "nodePredictPolicy": {"predictor": "calibrated"}}


async def test_a_namespace_that_takes_its_right_back_costs_no_other_one(short):
    """Who administers a namespace may delete the RoleBinding there, or the namespace."""
    world = short.world
    world.rights = Rights(world.api, "aaa,zzz", world.clock)
    world.evictor = world.new_evictor()
    predictors = []
    await short.start(CALIBRATED, may_evict=("aaa", "zzz"))
    for granted in (("aaa", "zzz"), ("zzz",), ()):
        short.server.may_evict = set(granted)
        short.pass_seconds(61)
        await world.evictor.check_rights()
        await short.report(calculated=(6000, 10_000))
        predictors.append(short.server.get("nodemetrics", "n1")["spec"]["predictPolicy"]["predictor"])
    assert predictors == ["calibrated", "calibrated", "max"]
    named = [item for item in short.server.all("events") if item["reason"] == "MidEvictionNotAllowed"]
    assert [item["involvedObject"]["kind"] for item in named] == ["ConfigMap"] * 2
    assert "pods/eviction in aaa: Mid pods there are not evicted" in named[0]["message"]
    for _ in range(10):  # what `koordctl status` shows is young
        short.pass_seconds(61)
        await world.evictor.check_rights()
    named = [item for item in short.server.all("events") if item["reason"] == "MidEvictionNotAllowed"]
    assert named[-1]["count"] == 3


async def test_a_right_is_asked_for_while_it_was_granted_although_only_a_node_evicts(short):
    await short.start(CALIBRATED)
    strategy = json.dumps({"midEviction": {"mode": "evict"}})
    annotations = {"node.koordinator.sh/colocation-strategy": strategy}
    short.server.patch("nodes", "n1", {"metadata": {"annotations": annotations}})
    short.world.configure({**CALIBRATED, "midEviction": {"mode": "advise"}})
    await short.world.config.refresh()
    short.server.may_evict = set()
    short.pass_seconds(61)
    await short.world.evictor.check_rights()
    await short.report(calculated=(6000, 10_000))
    assert short.server.get("nodemetrics", "n1")["spec"]["predictPolicy"]["predictor"] == "max"


async def test_where_nothing_answers_after_an_eviction_was_forbidden_the_right_counts_as_lost(world):
    world.server.may_evict = {"a"}
    rights = Rights(world.api, "a", world.clock)
    assert not await rights.lost("a")
    world.server.refuse["POST", "selfsubjectaccessreviews"] = AWAY
    assert await rights.lost("a")


async def test_the_cluster_has_one_rate(short):
    nodes = [f"n{number}" for number in range(20)]
    await short.start(nodes=nodes)
    for node in nodes:
        for name in "abc":
            short.add_pod(f"{node}-{name}", node=node)
    await short.minutes(2, nodes=nodes)
    await short.minutes(1, nodes=nodes)
    assert len(short.evicted) == 5
    await short.minutes(1, nodes=nodes)
    assert len(short.evicted) == 10
    await short.minutes(2, nodes=nodes)
    assert {name.partition("-")[0] for name in short.evicted} == set(nodes)


async def test_advice_has_the_rate_of_evictions_because_it_reads_as_much(short):
    nodes = [f"n{number}" for number in range(20)]
    await short.start({"enable": True}, nodes=nodes)
    for node in nodes:
        short.add_pod(f"{node}-a", node=node)
        short.add_pod(f"{node}-b", node=node)
        short.add_pod(f"{node}-c", node=node)
    await short.minutes(3, nodes=nodes)
    assert short.advices() == 5
    await short.minutes(3, nodes=nodes)
    assert short.advices() == 20
    assert {each["involvedObject"]["name"] for each in short.server.all("events")} >= set(nodes)


async def seconds(short, count):
    for _ in range(count):
        await short.round()
        short.pass_seconds(1)


async def change_leader(short):
    short.world.evictor = short.world.new_evictor()
    await short.world.settle()


async def test_a_new_leader_counts_all_evictions_of_a_node_that_is_emptied(short):
    bound = {"enable": True, "midEviction": {**AT_ONCE["midEviction"], "clusterPerMinute": 3}}
    await start(short, bound, pods=8)
    for _ in range(30):
        if (short.annotation() or {}).get("recent", 0) < 2:
            await short.report(**PLENTY)
            await seconds(short, 12)
    assert short.annotation()["recent"] == 2
    before = len(short.evicted)
    await change_leader(short)
    await seconds(short, 24)
    assert len(short.evicted) == before
    await seconds(short, 48)
    assert len(short.evicted) > before


LEAVES = {"spec": {"taints": [{"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}]}}


async def test_a_new_leader_counts_all_evictions_of_a_node_that_leaves(short):
    await short.start()
    for index in range(110):
        short.add_pod(f"m{index}", 10, 10)
    await short.report(calculated=(8000, 16_000))
    short.server.patch("nodes", "n1", LEAVES)
    await short.world.settle()
    await seconds(short, 25)
    assert len(short.evicted) > 40
    await change_leader(short)
    await seconds(short, 34)
    assert len(short.evicted) == 50
    await seconds(short, 120)
    assert len(short.evicted) == 110
