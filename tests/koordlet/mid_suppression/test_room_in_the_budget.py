"""What a plan sends where the budget of the node is nearly used, and what a pod gains by waiting for it."""

from __future__ import annotations

import dataclasses

from api_types.mid_pods.cpu_limits import MidContainer
from koordlet.mid_suppression import shares
from tests.koordlet.mid_suppression.suppressed_node import SuppressedNode, limited


def at_limit(name, limit, version="1"):
    """Return a pod with an original limit of 100 m and another limit now."""
    pod = limited(name, 100)
    containers = (dataclasses.replace(pod.mid.containers[0], limit_millis=limit),)
    return dataclasses.replace(pod, mid=dataclasses.replace(pod.mid, resource_version=version, containers=containers))


def test_the_last_patch_of_the_budget_is_sent():
    node = SuppressedNode(*(limited(f"p{index:02}", 100) for index in range(19)))
    node.use(prod=9.0)
    node.run(6)
    assert len(node.patches) == 19
    node.pods |= {name: limited(name, 100) for name in ("new", "other")}
    node.run(2)
    assert len(node.patches) == 20


def test_rises_take_what_reductions_leave_of_the_budget():
    node = SuppressedNode(*(at_limit(f"low{index}", 10) for index in range(10)))
    node.run(34)
    assert node.patches == []
    node.pods |= {f"high{index:02}": at_limit(f"high{index:02}", 9000) for index in range(15)}
    changes = node.run(1)
    assert [change.is_lowering for change in changes] == [True] * 15 + [False] * 5


def test_a_pod_that_appears_while_the_budget_is_used_waits_from_then_on():
    """It waits for 59 s, one half minute in full: it rises by two tenths."""
    node = SuppressedNode(*(at_limit(f"p{index:02}", 10) for index in range(20)), threshold=0)
    assert len(node.run(31)) == 20
    node.pods["new"] = at_limit("new", 10)
    changes = {change.pod.name: change.limits for change in node.run(60)}
    assert changes["new"] == {"c0": 30}


def test_the_wait_for_the_budget_begins_again_after_a_plan_without_a_rise():
    """While the budget is used, a plan without a rise ends the wait."""
    node = SuppressedNode(*(at_limit(f"p{index:02}", 10) for index in range(30)), threshold=0)
    node.run(31)
    node.run(40)
    node.threshold, node.usage = 65, None
    node.run(1)
    node.threshold = 0
    node.patches.clear()
    node.run(31)
    assert {change.limits["c0"] for _, change in node.patches if change.pod.name >= "p20"} == {20}


def test_failures_in_a_row_are_counted_from_the_last_success():
    node = SuppressedNode(limited("a", 4000))
    node.use(prod=9.0)
    (change,) = node.run(5)
    planner = node.planner
    assert [planner.failed(node.now, change) for _ in range(12)] == [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 10, 10]
    planner.done(change)
    assert planner.failed(node.now, change) == 1


def test_a_pod_may_be_tried_again_exactly_when_its_pause_ends():
    node = SuppressedNode(limited("a", 4000))
    node.use(prod=9.0)
    (change,) = node.run(5)
    node.planner = type(node.planner)(node.now, recent=node.planner.recent)
    node.planner.failed(node.now, change)
    node.pods["a"] = limited("a", 4000)
    node.patches.clear()
    assert node.run(9) == []
    assert len(node.run(1)) == 1


def test_a_container_without_a_request_has_the_weight_of_a_millicore():
    some = [MidContainer("c0", "x", 1000, 10, 1000, 1000, requested) for requested in (0, 2)]
    assert shares.limits_millis(450, some) == [150, 300]
