"""When a plan sends what: the exact seconds of calm, steps, budget and missing data."""

from __future__ import annotations

import dataclasses

from koordlet.mid_suppression.planner import Node
from tests.koordlet.mid_suppression.suppressed_node import SuppressedNode, limited


def lowered(name="a", limit=10):
    pod = limited(name, 4000)
    containers = (dataclasses.replace(pod.mid.containers[0], limit_millis=limit),)
    return dataclasses.replace(pod, mid=dataclasses.replace(pod.mid, containers=containers))


def fifty_that_are_lowered():
    node = SuppressedNode(*(limited(f"p{index:02}", 100) for index in range(50)))
    node.use(prod=9.0)
    node.run(200)
    node.patches.clear()
    return node


def moments(node):
    return sorted({time for time, _ in node.patches})


def test_the_budget_of_twenty_patches_is_free_again_after_a_minute():
    node = SuppressedNode(*(limited(f"p{index:02}", 100) for index in range(50)))
    node.use(prod=9.0)
    node.run(200)
    first = moments(node)[0]
    assert moments(node) == [first, first + 60, first + 120]
    assert [sum(time == moment for time, _ in node.patches) for moment in moments(node)] == [20, 20, 10]


def test_a_rise_is_a_tenth_and_one_more_for_each_half_minute_of_waiting_for_the_budget():
    """Ten pods a minute rise, from 10 m: the second ten have waited for two more tenths of 100 m, and so on."""
    node = fifty_that_are_lowered()
    node.use(prod=0.5)
    node.run(300)
    firsts = {}
    for time, change in node.patches:
        firsts.setdefault(change.pod.name, (time, change.limits["c0"]))
    begin = moments(node)[0]
    assert sorted(firsts.values()) == [
        (begin + 60 * turn, limit) for turn, limit in enumerate((20, 40, 60, 80, 100)) for _ in range(10)
    ]


def test_limits_rise_after_30_s_of_calm_and_each_30_s_from_then_on():
    """Usage is known after five samples."""
    node = SuppressedNode(lowered())
    assert node.run(34) == []
    assert [change.limits for change in node.run(1)] == [{"c0": 410}]
    assert node.run(29) == []
    assert [change.limits for change in node.run(1)] == [{"c0": 810}]


def test_limits_rise_30_s_after_suppression_is_off():
    node = SuppressedNode(lowered(), threshold=0)
    assert node.run(30) == []
    assert [change.limits for change in node.run(1)] == [{"c0": 410}]


def test_limits_rise_five_minutes_after_the_start_of_an_agent_without_data():
    node = SuppressedNode(lowered())
    node.usage = None
    assert node.run(299) == []
    assert [change.limits for change in node.run(1)] == [{"c0": 410}]


def test_suppression_that_was_off_counts_as_known_until_it_is_on():
    node = SuppressedNode(limited("a", 4000), threshold=0)
    node.usage = None
    node.run(400)
    node.pods["a"] = lowered()
    node.threshold = 65
    assert node.run(299) == []
    assert len(node.run(1)) == 1


def test_calm_begins_again_after_a_busy_time():
    node = SuppressedNode(lowered())
    node.run(25)
    node.use(prod=9.0)
    node.run(6)
    assert node.planner.is_busy
    node.use(prod=0.5)
    node.patches.clear()
    calm = None
    while not node.patches:
        node.run(1)
        if calm is None and not node.planner.is_busy:
            calm = node.now
    assert moments(node) == [calm + 30]


def test_calm_begins_again_after_a_time_without_the_size_of_the_node():
    node = SuppressedNode(lowered())
    node.run(30)
    node.node = None
    assert node.run(10) == []
    node.node = Node(10_000, 0.5)
    assert node.run(30) == []
    assert len(node.run(1)) == 1


def test_a_node_is_not_busy_while_suppression_is_off_or_its_size_is_unknown():
    node = SuppressedNode(limited("a", 4000))
    node.use(prod=9.0)
    node.run(6)
    assert node.planner.is_busy
    known, node.node = node.node, None
    node.run(1)
    assert not node.planner.is_busy
    node.node = known
    node.run(1)
    assert node.planner.is_busy
    node.threshold = 0
    node.run(1)
    assert (node.planner.is_busy, node.planner.allowed_millis) == (False, None)


def test_time_off_begins_again_after_suppression_was_on():
    node = SuppressedNode(lowered(), threshold=0)
    node.run(10)
    node.threshold, node.usage = 65, None
    node.run(15)
    node.threshold = 0
    assert node.run(30) == []
    assert len(node.run(1)) == 1


def test_a_pod_is_patched_again_after_ten_seconds():
    node = SuppressedNode(limited("a", 4000))
    node.use(prod=9.0)
    node.run(6)
    (first,) = moments(node)
    again = limited("a", 4000)  # its author has set the limit again
    node.pods["a"] = dataclasses.replace(again, mid=dataclasses.replace(again.mid, resource_version="9"))
    node.run(12)
    assert moments(node) == [first, first + 10]


def test_a_change_of_a_twentieth_of_the_original_is_left_out():
    """Of 8 cores below the threshold Prod uses 4.2, which leaves 3.8: 5 % less than 4."""
    node = SuppressedNode(limited("a", 4000), threshold=80)
    node.node = Node(10_000, 0.0, is_prod_short=True)
    node.use(prod=4.2, system=0.0)
    assert node.run(30) == []
    node.use(prod=4.25, system=0.0)
    node.run(10)
    assert node.limits()[0] < 3800
