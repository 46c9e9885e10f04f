"""Nodes that were closed in vain come after the others, so that a few of them do not hold every turn."""

from manager.mid_resource.eviction.mid_only import LEFT_ALONE_FOR
from tests.manager.evictions import budget_refuses
from tests.manager.mid_resource.eviction.test_mid_only import GRACES, at, pod, reported, survey
from tests.manager.mid_resource.eviction.test_mid_only_nodes import AT_ONCE, PLENTY, start

BOUND = {"enable": True, "midEviction": {**AT_ONCE["midEviction"], "emptyNodesAtOnce": 1}}


def order(found, names, seconds):
    for name in names:
        found.listed(name, [], [pod(f"of-{name}", 10 if name != "large" else 1000)], at(seconds))
    return [node.name for node in found.mid_only((), at(seconds))]


def test_a_node_that_was_never_given_up_is_first_and_then_the_one_that_was_so_longest_ago():
    names = ("a", "b", "large")
    found = survey(**dict.fromkeys(names, reported()))
    order(found, names, 0)
    grace, pause = (int(each.total_seconds()) for each in (GRACES.with_room, LEFT_ALONE_FOR))
    assert order(found, names, grace) == ["a", "b", "large"], "the cheapest first"
    found.leave_alone("b", at(400))
    found.leave_alone("a", at(500))
    assert order(found, names, 500 + pause + grace) == ["large", "b", "a"]


async def test_three_nodes_whose_pods_a_budget_keeps_take_one_turn_each_before_another_node_has_its_own(short):
    nodes = ("n1", "n2", "n3", "n4")
    await start(short, BOUND, nodes=nodes, pods=0)
    for node in nodes[:3]:
        short.add_pod(f"tiny-{node}", 10, node=node, namespace="greedy")
    short.add_pod("fair", node="n4")
    budget_refuses(short.server, "greedy")
    closed = []
    for _ in range(200):
        await short.minutes(1, nodes=nodes, per_round=60, **PLENTY)
        closed += [name for name in nodes if short.closed(name) and name not in closed[-1:]]
    assert (closed, short.evicted) == (list(nodes), ["fair"])
