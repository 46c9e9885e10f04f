"""A node that only Mid pods keep is closed and emptied, if that is configured, and reopened with the next other pod."""

import datetime as dt
import logging

import pytest

from manager.mid_resource.eviction.pods import EvictablePods, Occupancy
from tests.fakes import cluster
from tests.manager.conftest import allocated
from tests.manager.evictions import TENANT, Short, budget_refuses

AT_ONCE = {"enable": True, "midEviction": {"mode": "evict", "emptyNodeSeconds": 120, "emptyNodesAtOnce": 9}}


PLENTY = {"calculated": (8000, 16_000)}


async def start(short, document=AT_ONCE, *, nodes=("n1",), pods=2, **given):
    await short.start(document, nodes=nodes, **given)
    for node in nodes:
        for index in range(pods):
            short.add_pod(f"{node}-m{index}", node=node)
    short.add_prod_pod("agent", owner="DaemonSet", namespace="kube-system")
    return short


def texts(short, reason):
    return [each["message"] for each in short.server.all("events") if each["reason"] == reason]


async def start_of_emptying(short):
    await start(short, AT_ONCE, pods=6)
    await short.report(**PLENTY)
    while not short.evicted:
        short.pass_seconds(10)
        await short.report(**PLENTY)
        await short.round()
    assert len(short.evicted) == 1


async def test_karpenter_is_left_no_node_that_it_did_not_make(world_beside_karpenter):
    short = Short(world_beside_karpenter)
    await start(short, AT_ONCE)
    await short.minutes(6, **PLENTY)
    assert short.evicted == []


async def test_a_list_that_another_pod_has_outdated_closes_nothing(short):
    soon = {**AT_ONCE["midEviction"], "emptyNodeSeconds": 20}
    await start(short, {"enable": True, "midEviction": soon})
    await short.report(**PLENTY)
    await short.round()
    short.pass_seconds(10)
    await short.round()
    short.add_prod_pod()
    short.pass_seconds(10)
    await short.round()
    assert short.annotation() is None
    await short.minutes(2, **PLENTY)
    assert (short.evicted, short.annotation()) == ([], None)
    assert "MidOnlyNodeClosed" not in short.reasons()


async def test_no_more_nodes_than_permitted_are_closed_while_they_exist(short):
    nodes = tuple(f"n{index}" for index in range(1, 5))
    document = {"enable": True, "midEviction": {**AT_ONCE["midEviction"], "emptyNodesAtOnce": 2}}
    await start(short, document, nodes=nodes)
    await short.minutes(10, nodes=nodes, **PLENTY)
    closed = [node for node in nodes if short.annotation(node)]
    assert len(closed) == 2
    assert len(short.evicted) == 4
    assert any("2 nodes that were closed for it exist" in each for each in texts(short, "MidOnlyNode"))
    for node in closed:
        short.server.remove("nodes", node)
        short.world.evictor.forget(node)
    left = tuple(node for node in nodes if node not in closed)
    await short.minutes(4, nodes=left, **PLENTY)
    assert len(short.evicted) == 8


async def test_an_amount_that_cannot_be_read_is_not_printed(short):
    await start(short, {"enable": True, "midEviction": {**AT_ONCE["midEviction"], "mode": "advise"}})
    short.add_pod("odd", "9" * 20)
    await short.minutes(6, **PLENTY, allocated=allocated(mid_cpu=3000, mid_memory=3000))
    (text,) = texts(short, "MidOnlyNode")
    assert "3 Mid pods request an amount of kubernetes.io/mid-cpu that cannot be read and 3000 bytes;" in text


async def test_with_the_key_at_zero_a_closed_node_opens_again(short):
    await start(short, AT_ONCE)
    await short.minutes(4, **PLENTY)
    assert short.annotation()
    short.world.configure({"enable": True, "midEviction": {"mode": "evict", "emptyNodeSeconds": 0}})
    await short.world.config.refresh()
    await short.minutes(2, **PLENTY)
    assert short.annotation() is None


@pytest.mark.parametrize("phase", ["Pending", "Succeeded"])
async def test_a_pod_that_was_bound_keeps_a_node_and_one_that_has_ended_does_not(short, phase):
    await start(short, AT_ONCE)
    short.add_prod_pod()
    short.server.patch("pods", "web", {"status": {"phase": phase}}, "shop")
    await short.minutes(4, **PLENTY)
    assert len(short.evicted) == (0 if phase == "Pending" else 2)


async def configure(short, document):
    short.world.configure(document)
    await short.world.config.refresh()
    await short.world.settle()


async def test_no_pod_is_evicted_once_colocation_is_disabled_and_the_node_opens_again(short):
    await start_of_emptying(short)
    await configure(short, {**AT_ONCE, "enable": False})
    await short.minutes(5, **PLENTY)
    assert (len(short.evicted), short.annotation()) == (1, None)


async def test_a_freeze_interrupts_the_emptying_because_no_node_has_a_place(short):
    await start_of_emptying(short)
    await configure(short, {**AT_ONCE, "midEmergency": "freeze"})
    await short.minutes(5, **PLENTY)
    assert (len(short.evicted), short.closed()) == (1, "Frozen")
    await configure(short, AT_ONCE)
    await short.minutes(2, **PLENTY)
    assert (len(short.evicted), short.closed()) == (6, "MidOnly")


async def test_a_cordon_interrupts_the_emptying_because_it_promises_to_leave_the_pods(short):
    await start_of_emptying(short)
    short.server.patch("nodes", "n1", {"spec": {"unschedulable": True}})
    await short.world.settle()
    await short.minutes(5, **PLENTY)
    assert (len(short.evicted), short.closed()) == (1, "MidOnly")
    short.server.patch("nodes", "n1", {"spec": {"unschedulable": None}})
    await short.world.settle()
    await short.minutes(2, **PLENTY)
    assert (len(short.evicted), short.closed()) == (6, "MidOnly")


async def test_a_closed_node_opens_again_where_the_right_to_evict_is_taken_back(short):
    await start_of_emptying(short)
    short.server.may_evict = {"other"}
    short.pass_seconds(61)
    await short.minutes(3, **PLENTY)
    assert (len(short.evicted), short.annotation(), short.closed()) == (1, None, "")
    (text,) = texts(short, "MidOnlyNodeReopened")
    assert text.startswith("accepts new Mid pods again: no right to evict in tenant; set the chart's value")


async def test_a_tenant_whose_budget_refuses_keeps_no_other_node_from_being_emptied(short):
    bound = {"enable": True, "midEviction": {**AT_ONCE["midEviction"], "emptyNodesAtOnce": 1}}
    nodes = ("n1", "n2")
    await start(short, bound, nodes=nodes, pods=0)
    short.add_pod("tiny", 10, node="n1", namespace="greedy")
    short.add_pod("m", node="n2")
    budget_refuses(short.server, "greedy")
    await short.minutes(60, nodes=nodes, per_round=30, **PLENTY)
    assert (short.closed("n1"), short.closed("n2"), short.evicted) == ("MidOnly", "", [])
    await short.minutes(10, nodes=nodes, per_round=30, **PLENTY)
    assert (short.closed("n1"), short.closed("n2"), short.evicted) == ("", "MidOnly", ["m"])
    (text,) = texts(short, "MidOnlyNodeReopened")
    assert text == "accepts new Mid pods again: its Mid pods stayed, or others came, for 60 minutes"


@pytest.mark.parametrize(
    ("of_first", "why_not"),
    [({"namespace": "greedy"}, "no right to evict in greedy"), ({"node": "advised"}, "midEviction.mode advise")],
)
async def test_a_node_that_may_not_be_emptied_takes_the_turn_of_no_other(short, of_first, why_not):
    """It has the fewest Mid requests, so it would be the first one."""
    of_pool = {"nodeSelector": {"matchLabels": {"pool": "advised"}}, "midEviction": {"mode": "advise"}}
    bound = {"enable": True, "midEviction": {**AT_ONCE["midEviction"], "emptyNodesAtOnce": 1}}
    await start(short, {**bound, "nodeConfigs": [{"name": "p", **of_pool}]}, pods=0, may_evict=("tenant",))
    short.world.add_node("advised", labels={"pool": "advised"})
    await short.world.settle("advised")
    short.add_pod("tiny", 10, **{"node": "n2", **of_first})
    short.world.add_node("n2")
    await short.world.settle("n2")
    short.add_pod("m", node="n1")
    await short.minutes(5, nodes=("n1", "n2", "advised"), **PLENTY)
    assert short.evicted == ["m"]
    assert any(f"the node is not emptied: {why_not}" in each for each in texts(short, "MidOnlyNode"))


async def test_it_is_emptied_after_the_grace(short):
    nodes = ("n1", "n2")
    await start(short, nodes=nodes)
    short.add_prod_pod(node="n2")
    await short.minutes(2, nodes=nodes, **PLENTY)
    assert short.evicted == []
    await short.minutes(2, nodes=nodes, **PLENTY)
    assert sorted(short.evicted) == ["n1-m0", "n1-m1"], "in 12 s steps, not in two minutes each"
    assert (short.annotation()["trigger"], short.annotation("n2")) == ("MidOnlyNode", None)
    assert short.closed() == "MidOnly"
    (text,) = texts(short, "MidOnlyNodeClosed")
    assert text.startswith(
        "only Mid pods and pods of DaemonSets run on the node since 2026-11-21T12:00:00Z: 2 Mid pods"
    )
    assert "; the node is closed for new Mid pods and emptied" in text
    short.end_pods()
    await short.minutes(3, nodes=nodes, **PLENTY)
    assert short.world.mid_of() == (0, 0)
    assert "MidEvictionWithoutPod" not in short.reasons()


async def minutes_to_the_next(short, *, closing, most):
    """Return the minutes until the node is closed, or opens; the Mid pods that leave end at once."""
    for minute in range(most):
        if (short.annotation() is not None) is closing:
            return minute
        await short.minutes(1, per_round=30, **PLENTY)
        short.end_pods()
    return most


async def test_a_node_that_the_autoscaler_keeps_opens_again_and_is_left_alone_for_an_hour(short):
    await start(short, pods=1)
    await minutes_to_the_next(short, closing=True, most=5)
    assert await minutes_to_the_next(short, closing=False, most=30) in range(15, 18)
    assert texts(short, "MidOnlyNodeReopened") == [
        "accepts new Mid pods again: no autoscaler has removed it within 15 minutes"
    ]
    short.add_pod("late")
    assert await minutes_to_the_next(short, closing=True, most=70) in range(60, 66)


def test_the_pause_of_a_node_that_the_autoscaler_keeps_doubles_up_to_a_day_until_another_pod_runs_there():
    state, now = Occupancy(), dt.datetime(2026, 11, 21, tzinfo=dt.UTC)
    hours = []
    for _ in range(7):
        state.leave_alone(now)
        hours.append((state.not_before - now) // dt.timedelta(hours=1))
    assert hours == [1, 2, 4, 8, 16, 24, 24]
    state.list_shows("shop/web", EvictablePods((), ()), now)
    state.leave_alone(now)
    assert state.not_before == now + dt.timedelta(hours=1)


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
    assert all(
        each.endswith("; the node accepts new Mid pods again once another pod runs there, or the autoscaler keeps it")
        for each in on_node
    )


NODES = ("n1", "n2", "n3")


AWAY = cluster.Refusal(500, "InternalError", message="etcd is away")


async def test_a_right_that_cannot_be_asked_for_holds_up_no_node_of_another_namespace(short, monkeypatch, caplog):
    of_server = short.server._do

    def no_review_of_one(request, key, subresource):
        if key[0] == "selfsubjectaccessreviews" and b'"unknown"' in request.body:
            raise AWAY
        return of_server(request, key, subresource)

    await start(short, AT_ONCE, nodes=NODES, pods=0, may_evict=(TENANT,))
    for node, namespace in zip(NODES, ("unknown", TENANT, TENANT), strict=True):
        short.add_pod(f"{node}-m", node=node, namespace=namespace)
    monkeypatch.setattr(short.server, "_do", no_review_of_one)
    await short.minutes(5, nodes=NODES, **PLENTY)
    assert sorted(short.evicted) == ["n2-m", "n3-m"]
    assert short.closed("n1") == ""
    asked = [each for each in caplog.records if "node n1: cannot ask" in each.getMessage()]
    assert asked
    assert {each.levelno for each in asked} == {logging.WARNING}


async def rounds(short, count):
    """Let rounds pass without a report."""
    for _ in range(count):
        short.pass_seconds(10)
        await short.round()


async def test_a_node_whose_annotation_somebody_removed_is_not_emptied_beyond_the_bound(short):
    bound = {"enable": True, "midEviction": {**AT_ONCE["midEviction"], "emptyNodesAtOnce": 1}}
    await start(short, bound, nodes=("n1", "n2"), pods=6)
    await short.minutes(3, nodes=("n1", "n2"), **PLENTY)
    assert (short.closed("n1"), short.closed("n2")) == ("MidOnly", "")
    short.server.patch("nodes", "n1", {"metadata": {"annotations": {"koordinator.sh/mid-eviction": None}}})
    await short.world.settle("n1")
    short.end_pods()
    for index in range(4):
        short.add_pod(f"new{index}", node="n1")  # now n2 is the one that fewer Mid pods keep
    closed = []
    for _ in range(6):
        await short.minutes(1, nodes=("n1", "n2"), **PLENTY)
        closed.append(sum(short.annotation(name) is not None for name in ("n1", "n2")))
    assert closed == [1] * 6
    assert "MidResourcesReverted" in short.reasons()


async def test_a_taint_that_is_taken_back_does_not_open_it(short):
    await start_of_emptying(short)
    await patch(short, {"taints": LEAVES})
    await short.minutes(2, **PLENTY)
    assert (len(short.evicted), short.closed()) == (6, "Leaving")
    await patch(short, {"taints": None})
    short.end_pods()
    await short.minutes(12, **PLENTY)
    assert short.closed() == "MidOnly"
