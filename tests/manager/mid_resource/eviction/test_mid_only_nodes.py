"""A node that only Mid pods keep is closed and emptied, if that is configured, and reopened with the next other pod."""

import pytest

from manager.mid_resource.eviction.policy import EMPTY_AFTER
from tests.manager.conftest import allocated
from tests.manager.evictions import Short, budget_refuses

EMPTIES = {"enable": True, "midEviction": {"mode": "evict", "emptyNodeSeconds": 120}}
AT_ONCE = {"enable": True, "midEviction": {
    "mode": "evict", "emptyNodeSeconds": 120, "emptyNodeWithoutRoomSeconds": 120, "emptyNodesAtOnce": 9,
}}  # fmt: skip
UNDERUSED = {"enable": True, "midEviction": {**AT_ONCE["midEviction"], "emptyUnderusedPercent": 80}}
PLENTY = {"calculated": (8000, 16_000)}


async def start(short, document=EMPTIES, *, nodes=("n1",), pods=2, **given):
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


async def test_it_is_emptied_after_the_grace_and_its_pods_have_a_place_on_a_node_that_prod_keeps(short):
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
    assert "and fit elsewhere; the node is closed for new Mid pods and emptied" in text
    assert any("only Mid pods and pods of DaemonSets run on the node" in each for each in texts(short, "MidPodEvicted"))
    short.end_pods()
    await short.minutes(3, nodes=nodes, **PLENTY)
    assert short.world.mid_of() == (0, 0)
    assert "MidEvictionWithoutPod" not in short.reasons()


@pytest.mark.parametrize(("autoscaler", "evicted"), [("none", 0), ("karpenter", 2)])
async def test_the_default_follows_the_autoscaler(world, world_beside_karpenter, autoscaler, evicted):
    short = Short(world_beside_karpenter if autoscaler == "karpenter" else world)
    document = {"enable": True, "midEviction": {"mode": "evict", "emptyNodeWithoutRoomSeconds": 1}}
    await start(short, document)
    short.server.patch("nodes", "n1", {"metadata": {"labels": {"karpenter.sh/nodepool": "default"}}})
    await short.minutes(EMPTY_AFTER.seconds // 60 + 3, **PLENTY)
    assert len(short.evicted) == evicted


async def test_karpenter_is_left_no_node_that_it_did_not_make(world_beside_karpenter):
    short = Short(world_beside_karpenter)
    await start(short, AT_ONCE)
    await short.minutes(6, **PLENTY)
    assert short.evicted == []


@pytest.mark.parametrize("document", [{"enable": True, "midEviction": {"mode": "evict"}}, {"enable": True}])
async def test_without_the_key_no_pod_is_listed_for_it(short, document):
    await start(short, document)
    await short.minutes(8, **PLENTY)
    assert short.evicted == []
    lists = [each for each in short.server.requests if "fieldSelector" in each.query]
    assert not any(each.query["fieldSelector"].startswith("spec.nodeName") for each in lists)


async def test_a_pod_without_another_place_waits_for_the_second_grace(short):
    document = {"enable": True, "midEviction": {**EMPTIES["midEviction"], "emptyNodeWithoutRoomSeconds": 300}}
    await start(short, document)
    await short.minutes(4, **PLENTY)
    assert short.evicted == []
    (text,) = texts(short, "MidOnlyNode")
    assert text.endswith(
        "they stay, because no nodes that other pods keep have so much free; they leave all the same at "
        "2026-11-21T12:05:00Z"
    )
    await short.minutes(3, **PLENTY)
    assert len(short.evicted) == 2
    assert "and will wait, because they fit nowhere else" in texts(short, "MidOnlyNodeClosed")[0]


async def test_a_node_with_another_pod_is_kept(short):
    await start(short, AT_ONCE)
    short.add_prod_pod()
    await short.minutes(8, **PLENTY)
    assert (short.evicted, short.annotation()) == ([], None)


async def test_it_stays_closed_until_another_pod_runs_there(short):
    await start(short, AT_ONCE)
    await short.minutes(4, **PLENTY)
    short.end_pods()
    await short.minutes(10, **PLENTY)
    assert short.closed() == "MidOnly", "calm reports do not reopen it"
    short.add_prod_pod()
    await short.minutes(3, **PLENTY)
    assert (short.annotation(), short.closed()) == (None, "")
    assert texts(short, "MidOnlyNodeReopened") == ["accepts new Mid pods again: the pod shop/web runs there"]


async def test_no_pod_is_evicted_once_another_pod_runs_there(short):
    await start_of_emptying(short)
    short.add_prod_pod()
    short.pass_seconds(13)
    await short.round()
    assert len(short.evicted) == 1, "the pods are listed before each eviction"
    assert short.annotation() is None


async def test_a_list_that_another_pod_has_outdated_closes_nothing(short):
    soon = {**AT_ONCE["midEviction"], "emptyNodeSeconds": 20, "emptyNodeWithoutRoomSeconds": 20}
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


async def test_a_new_leader_keeps_a_node_closed_and_empties_it(short):
    await start(short, AT_ONCE, pods=6)
    while not short.evicted:
        await short.minutes(1, **PLENTY)
    short.world.evictor = short.world.new_evictor()
    await short.minutes(3, **PLENTY)
    assert len(short.evicted) == 6
    assert short.closed() == "MidOnly"


async def test_advice_names_the_node_and_changes_nothing(short):
    await start(short, {"enable": True, "midEviction": {**AT_ONCE["midEviction"], "mode": "advise"}})
    await short.minutes(6, **PLENTY)
    assert (short.evicted, short.annotation(), short.closed()) == ([], None, "")
    (text,) = texts(short, "MidOnlyNode")
    assert text.endswith("the node is not emptied: midEviction.mode advise")


async def test_without_the_right_in_each_namespace_the_node_stays_open(short):
    await start(short, AT_ONCE, may_evict=("other",))
    await short.minutes(6, **PLENTY)
    assert (short.evicted, short.annotation()) == ([], None)
    (text,) = texts(short, "MidOnlyNode")
    assert "not emptied: no right to evict in tenant; set the chart's value manager.eviction.namespaces" in text


async def test_with_the_key_at_zero_a_closed_node_opens_again(short):
    await start(short, AT_ONCE)
    await short.minutes(4, **PLENTY)
    assert short.annotation()
    short.world.configure({"enable": True, "midEviction": {"mode": "evict", "emptyNodeSeconds": 0}})
    await short.world.config.refresh()
    await short.minutes(2, **PLENTY)
    assert short.annotation() is None


async def test_the_states_are_counted(short):
    await start(short, AT_ONCE)

    def value(state):
        return short.world.telemetry.registry.get_sample_value("koord_manager_mid_only_nodes", {"state": state})

    await short.minutes(1, **PLENTY)
    assert (value("waiting"), value("closed")) == (1, 0)
    await short.minutes(3, **PLENTY)
    assert (value("waiting"), value("closed")) == (0, 1)


async def test_a_node_whose_other_pods_fit_elsewhere_is_emptied_where_that_is_configured(short):
    nodes = ("n1", "n2")
    await start(short, UNDERUSED, nodes=nodes)
    for node in nodes:
        short.add_prod_pod(f"web-{node}", node, requests={"cpu": "1"})
    await short.minutes(4, nodes=nodes, **PLENTY)
    assert sorted(short.evicted) == ["n1-m0", "n1-m1"], "the pod of n1 fits on n2, and then n2 has to stay"
    assert (short.closed("n1"), short.closed("n2")) == ("Underused", "")
    assert short.annotation()["trigger"] == "UnderusedNode"
    (text,) = texts(short, "MidOnlyNodeClosed")
    assert text.startswith(
        "1 other pods have requested little since 2026-11-21T12:00:00Z and fit elsewhere: 2 Mid pods"
    )
    short.end_pods()
    await short.minutes(16, nodes=nodes, **PLENTY)
    assert short.annotation("n1") is None
    assert texts(short, "MidOnlyNodeReopened")[0].startswith("accepts new Mid pods again: no autoscaler has removed it")


@pytest.mark.parametrize(
    "pinned",
    [
        {"owner": ""},
        {"annotations": {"karpenter.sh/do-not-disrupt": "true"}},
        {"annotations": {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"}},
        {"requests": {"cpu": "many"}},
        {"requests": {"cpu": "3"}},
    ],
)
async def test_a_node_with_a_pod_that_would_not_move_keeps_its_mid_pods(short, pinned):
    nodes = ("n1", "n2")
    await start(short, UNDERUSED, nodes=nodes)
    short.add_prod_pod(node="n1", **pinned)
    short.add_prod_pod("other", node="n2", annotations={"karpenter.sh/do-not-disrupt": "true"})
    await short.minutes(6, nodes=nodes, **PLENTY)
    assert (short.evicted, short.closed("n1"), short.closed("n2")) == ([], "", "")


@pytest.mark.parametrize("given", [{"owner": "DaemonSet"}, {"owner": "DaemonSet", "requests": {"cpu": "1"}}])
async def test_a_pod_that_comes_with_any_node_keeps_none(short, given):
    await start(short, AT_ONCE)
    short.add_prod_pod(**given)
    await short.minutes(4, **PLENTY)
    assert len(short.evicted) == 2


@pytest.mark.parametrize("phase", ["Pending", "Succeeded"])
async def test_a_pod_that_was_bound_keeps_a_node_and_one_that_has_ended_does_not(short, phase):
    await start(short, AT_ONCE)
    short.add_prod_pod()
    short.server.patch("pods", "web", {"status": {"phase": phase}}, "shop")
    await short.minutes(4, **PLENTY)
    assert len(short.evicted) == (0 if phase == "Pending" else 2)


async def test_a_static_pod_keeps_no_node(short):
    await start(short, AT_ONCE)
    uid = short.server.get("nodes", "n1")["metadata"]["uid"]
    short.server.add("pods", {
        "metadata": {"name": "etcd", "uid": "s", "annotations": {"kubernetes.io/config.mirror": "x"},
                     "ownerReferences": [{"kind": "Node", "name": "n1", "uid": uid, "controller": True}]},
        "spec": {"nodeName": "n1", "priority": 2000001000, "containers": [{}]}, "status": {"phase": "Running"},
    }, "kube-system")  # fmt: skip
    await short.minutes(4, **PLENTY)
    assert len(short.evicted) == 2


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


async def test_the_autoscaler_has_its_time_for_a_node_that_was_closed_long_before_for_a_shortage(short):
    await start(short, UNDERUSED, nodes=("n1", "n2"), pods=3)
    short.add_prod_pod(requests={"cpu": "1"})
    short.add_prod_pod("stays", node="n2", annotations={"karpenter.sh/do-not-disrupt": "true"})

    def of_prod(cpu):
        """Return a report by which 2.1 cores of Mid result: enough for two pods, and too little to open the node."""
        mid_cpu, mid_memory = short.requested("n1")
        of_pods = allocated(prod_cpu=str(cpu), mid_cpu=mid_cpu, mid_memory=mid_memory)
        return {"allocated": of_pods, "calculated": (10_100 - 1000 * cpu, 8000)}

    await short.minutes(3, **of_prod(9))
    assert len(short.evicted) == 1
    short.end_pods()
    await short.minutes(17, **of_prod(9))
    assert short.annotation()["trigger"] == "MidCPUShort"
    for _ in range(6):
        await short.report("n2", **PLENTY)
        await short.minutes(1, **of_prod(4))
        short.end_pods()
    assert len(short.evicted) == 3
    assert (short.closed(), texts(short, "MidOnlyNodeReopened")) == ("Underused", [])


async def test_a_closed_node_opens_again_where_the_right_to_evict_is_taken_back(short):
    await start_of_emptying(short)
    short.server.may_evict = {"other"}
    short.pass_seconds(61)
    await short.minutes(3, **PLENTY)
    assert (len(short.evicted), short.annotation(), short.closed()) == (1, None, "")
    (text,) = texts(short, "MidOnlyNodeReopened")
    assert text.startswith("accepts new Mid pods again: no right to evict in tenant; set the chart's value")


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
