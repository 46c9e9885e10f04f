from __future__ import annotations

import dataclasses
import itertools
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from api_types.mid_pods.cpu_limits import UNLIMITED_MILLIS, MidContainer
from koordlet.mid_suppression import planner
from koordlet.mid_suppression.node_usage import CoresByPart
from koordlet.mid_suppression.planner import NodeCpu
from tests.koordlet.mid_suppression.suppressed_node import SuppressedNode, limited


def fifty(**more):
    return SuppressedNode(*(limited(f"p{index:02}", 100) for index in range(50)), **more)


BUDGET_OF_50 = 125


def busiest_minute(node):
    """Return the largest number of patches within 60 s."""
    times = [time for time, _ in node.patches]
    return max(sum(begin <= time < begin + 60 for time in times) for begin in times) if times else 0


def test_a_calm_node_changes_nothing():
    node = SuppressedNode(limited("a", 4000))
    assert node.run(600) == []


def test_a_load_step_of_prod_lowers_the_limit_within_ten_seconds():
    node = SuppressedNode(limited("a", 4000))
    node.use(prod=1.0, mid=4.0)
    node.run(60)
    node.use(prod=5.0, mid=4.0)
    changes = node.run(10)
    assert [change.limits for change in changes[-1:]] == [{"c0": 1000}]
    assert sum(node.limits()) <= 6500 - 5000 - 500 + 200
    assert all(change.is_lowering for change in changes)


def test_usage_above_the_threshold_for_a_moment_changes_nothing():
    node = SuppressedNode(limited("a", 4000))
    node.run(30)
    node.use(prod=5.0, mid=4.0)
    assert node.run(2) == []
    node.use(prod=1.0)
    assert node.run(60) == []


def test_usage_that_swings_around_the_threshold_lowers_limits():
    node = SuppressedNode(limited("a", 4000))
    for _ in range(30):
        node.use(prod=6.0, mid=4.0)
        node.run(1)
        node.use(prod=4.0, mid=0.5)
        node.run(1)
    assert node.limits()[0] < 2000


def test_limits_rise_by_a_tenth_each_30_s_after_30_s_of_calm_and_are_restored_within_five_minutes_and_a_half():
    node = SuppressedNode(limited("a", 4000))
    node.use(prod=9.0, mid=1.0)
    node.run(30)
    assert node.limits() == [10]
    node.use(prod=1.0)
    node.patches.clear()
    node.run(30)
    assert node.patches == []
    node.run(330)
    times, changes = zip(*node.patches, strict=True)
    assert all(b - a >= 30 for a, b in itertools.pairwise(times))
    heights = [10, *(change.limits["c0"] for change in changes)]
    assert all(0 < b - a <= 400 for a, b in itertools.pairwise(heights))
    assert node.limits() == [4000]


def test_limits_rise_no_higher_than_what_prod_leaves():
    node = SuppressedNode(limited("a", 4000))
    node.use(prod=9.0)
    node.run(30)
    node.use(prod=4.0)
    node.run(1200)
    assert node.limits() == [2000]


def test_a_rise_after_a_long_wait_for_prod_is_a_single_step():
    """Only the wait for the budget of the node counts."""
    node = SuppressedNode(limited("a", 4000))
    node.use(prod=9.0)
    node.run(30)
    node.use(prod=5.9)
    node.run(1200)
    before = node.limits()[0]
    node.use(prod=1.0)
    node.run(8)
    assert node.limits()[0] - before <= 400


def test_the_largest_reductions_come_first():
    node = SuppressedNode(limited("small", 100), limited("large", 4000), limited("middle", 1000))
    node.use(prod=9.0)
    node.run(6)
    assert [change.pod.name for _, change in node.patches] == ["large", "middle", "small"]


def test_differences_within_the_dead_band_are_left_out():
    node = SuppressedNode(limited("a", 4000))
    node.use(prod=5.0, mid=2.0)
    node.run(30)
    assert node.limits() == [1000]
    for cores in (5.19, 4.81, 5.1, 4.9):
        node.use(prod=cores, mid=2.0)
        assert node.run(120) == []


@pytest.mark.parametrize(("mid", "own"), [(200_000, 10_000), (4000, 200), (4000, 15)])
def test_an_original_far_below_mid_cpu_is_lowered_and_rises_by_tenths_of_itself(mid, own):
    node = SuppressedNode(limited("a", 2000), limited("own", mid, originals=(own,)))
    node.use(prod=9.0, mid=1.0)
    node.run(10)
    assert node.limits() == [10, 10]
    node.threshold = 0
    node.patches.clear()
    node.run(400)
    assert node.limits() == [2000, own]
    heights = [10, *(change.limits["c0"] for _, change in node.patches if change.pod.name == "own")]
    assert all(b - a <= -(-own // 10) for a, b in itertools.pairwise(heights))


def set_by_its_author(pod, limit_millis):
    containers = tuple(dataclasses.replace(each, limit_millis=limit_millis) for each in pod.mid.containers)
    return dataclasses.replace(pod, mid=dataclasses.replace(pod.mid, resource_version="7", containers=containers))


@pytest.mark.parametrize("limit", [9000, UNLIMITED_MILLIS])
@pytest.mark.parametrize(("prod", "wanted"), [(0.1, 2000), (9.0, 10)])
def test_a_limit_above_mid_cpu_is_lowered_to_it_on_a_calm_node_and_like_any_other_on_a_busy_one(limit, prod, wanted):
    node = SuppressedNode(set_by_its_author(limited("a", 2000), limit), limited("b", 1000))
    node.use(prod=prod, mid=1.0)
    node.run(40)
    assert node.limits()[0] == wanted
    assert len([change for _, change in node.patches if change.pod.name == "a"]) == 1


@pytest.mark.parametrize("way", ["off", "blind"])
def test_without_suppression_or_data_a_limit_above_mid_cpu_stays(way):
    node = SuppressedNode(set_by_its_author(limited("a", 2000), 9000))
    if way == "off":
        node.threshold = 0
    else:
        node.usage = None
    assert node.run(900) == []


def test_a_throttled_prod_pod_lowers_limits_below_the_threshold():
    node = SuppressedNode(limited("a", 4000))
    node.use(prod=4.0)
    assert node.run(60) == []
    node.node = dataclasses.replace(node.node, is_prod_short=True)
    node.run(2)
    assert node.limits() == [2000]
    node.use(prod=1.0)
    node.run(600)
    assert node.limits() == [4000], "a Prod pod with a small limit of its own must not hold Mid down"


@pytest.mark.parametrize(("cores", "pods"), [(16, 20), (32, 50), (64, 100), (128, 200), (256, 400)])
@pytest.mark.parametrize("is_crowded", [False, True], ids=["Prod has what it wants", "Prod shares with Mid"])
def test_mid_is_at_what_is_allowed_within_a_minute_by_ten_patches_a_second(cores, pods, is_crowded):
    node = SuppressedNode(*(limited(f"p{index}", 600 * cores // pods) for index in range(pods)), cores=cores)
    node.node = NodeCpu(1000 * cores, 0.0)
    for second in range(120):
        prod, mid = cores * (0.01 if second < 60 else 0.6), sum(node.limits()) / 1000
        part = min(cores / (prod + mid), 1.0) if is_crowded else 1.0
        node.usage = CoresByPart(min(prod + mid, cores), prod * part, 0.0)
        node.run(1)
    dead_band = 0.05 * 0.6 * cores if is_crowded else 0.001 * cores
    assert sum(node.limits()) / 1000 <= 0.05 * cores + dead_band
    seconds = [time for time, _ in node.patches]
    assert max(seconds.count(second) for second in seconds) <= 10


def test_the_largest_holders_are_lowered_first_also_those_that_were_lowered_before():
    node = SuppressedNode(limited("large", 8000), *(limited(f"p{index:02}", 100) for index in range(60)))
    node.use(prod=3.0, mid=4.0)
    node.run(80)
    node.patches.clear()
    node.use(prod=9.0)
    node.run(8)
    assert node.patches[0][1].pod.name == "large"


def test_after_an_answer_that_the_api_server_is_busy_the_budget_is_halved_for_a_minute():
    node = fifty()
    node.planner.slow_down(node.now)
    node.use(prod=9.0)
    node.run(6)
    assert len(node.patches) == 10, "5 in each second"
    node.now += 60
    node.run(6)
    assert len(node.patches) == 30


def test_while_limits_rise_there_is_room_to_lower_at_once():
    node = fifty()
    node.use(prod=9.0)
    node.run(200)
    node.use(prod=1.0)
    node.run(120)
    node.use(prod=9.0)
    assert sum(change.is_lowering for change in node.run(10)) >= 10


@pytest.mark.parametrize("period", [2, 7, 12, 20, 31, 45, 70])
def test_a_flapping_load_costs_at_most_two_and_a_half_patches_of_a_pod_in_a_minute(period):
    node = fifty()
    for turn in range(900 // period):
        node.use(prod=(9.0, 0.5)[turn % 2])
        node.run(period)
    assert busiest_minute(node) <= BUDGET_OF_50


@pytest.mark.parametrize("pods", [1, 50])
def test_switched_off_restores_everything(pods):
    node = SuppressedNode(*(limited(f"p{index}", 200, 100, originals=(150, 100)) for index in range(pods)))
    node.use(prod=9.0)
    node.run(200)
    assert set(node.limits()) == {10}
    node.threshold = 0
    node.run(500)
    assert node.limits() == node.originals()
    assert busiest_minute(node) <= BUDGET_OF_50


def test_without_data_nothing_is_lowered_and_after_five_minutes_limits_rise():
    node = SuppressedNode(limited("a", 4000))
    node.use(prod=9.0)
    node.run(30)
    node.usage = None
    node.patches.clear()
    node.run(300)
    assert node.patches == []
    node.run(20)
    assert node.limits() == [410]
    node.run(600)
    assert node.limits() == [4000]


def test_another_agent_goes_on_where_the_last_one_ended():
    node = SuppressedNode(limited("a", 4000, originals=(3000,)))
    node.use(prod=9.0)
    node.run(30)
    node.restart()
    node.patches.clear()
    node.use(prod=1.0)
    assert node.run(29) == []
    node.run(400)
    assert node.limits() == [3000]


def test_a_pod_that_the_watch_does_not_show_yet_is_not_patched_again():
    node = SuppressedNode(limited("a", 4000))
    node.is_followed = False
    node.use(prod=9.0)
    assert len(node.run(120)) == 1


def test_refused_patches_are_tried_again_after_growing_pauses():
    node = SuppressedNode(limited("a", 4000))
    node.use(prod=9.0)
    times = []
    for _ in range(1800):
        node.now += 1
        node.planner.recent.add(node.now - 1, node.now, node.usage, 6.5)
        for change in node.planner.plan(node.now, 65, node.node, list(node.pods.values())):
            node.planner.sent(node.now, change)
            node.planner.failed(node.now, change)
            times.append(node.now)
    pauses = [b - a for a, b in itertools.pairwise(times)]
    assert pauses[:6] == [10, 20, 40, 80, 160, 300]
    assert set(pauses[6:]) == {300}


@settings(max_examples=40)
@given(st.integers(0, 2**32), st.integers(1, 50))
def test_whatever_happens_limits_stay_in_bounds_and_patches_in_the_budget(seed, count):
    draw = random.Random(seed)
    pods = []
    for index in range(count):
        mid = [draw.choice((5, 100, 1000, 8000)) for _ in range(draw.randint(1, 3))]
        pods.append(limited(f"p{index}", *mid, originals=tuple(draw.randint(max(1, each // 2), each) for each in mid)))
    node = SuppressedNode(*pods, threshold=draw.choice((0, 1, 65, 100)))
    for _ in range(30):
        node.usage = draw.choice((None, CoresByPart(*(draw.uniform(0, 10) for _ in range(3)))))
        node.node = draw.choice((None, *[NodeCpu(10_000, 0.5, draw.random() < 0.5)] * 4))
        node.threshold = draw.choice((node.threshold, node.threshold, 0, 65))
        if draw.random() < 0.1:
            node.restart()
            node.patches.clear()
        node.now += draw.choice((0, 0, 0, 200))
        node.run(draw.randint(1, 40))
    for pod in node.pods.values():
        for each in pod.mid.containers:
            assert each.floor_millis <= each.limit_millis <= each.original_millis
            assert each.limit_millis > 0
    assert busiest_minute(node) <= max(20, count * 5 // 2)
    by_pod = {}
    for time, change in node.patches:
        assert time - by_pod.get(change.pod.name, -100) >= 10
        by_pod[change.pod.name] = time


@pytest.mark.parametrize("prod", [0.0, 2.0, 4.5, 5.5, 8.0])
def test_under_a_steady_load_limits_settle(prod):
    node = SuppressedNode(*(limited(f"p{index}", 300 + 100 * index) for index in range(9)))
    node.use(prod=9.0)
    node.run(60)
    node.use(prod=prod, mid=0.1)
    node.run(900)
    assert node.run(900) == []


@st.composite
def containers(draw):
    mid = draw(st.integers(1, 100_000))
    original = draw(st.integers(1, mid))
    floor, requested = min(draw(st.sampled_from([10, 101])), original), draw(st.integers(0, mid))
    return MidContainer("c0", "x", mid, floor, original, original, requested)


def allowed(prod=3.0, system=0.5, reserved=1.0, threshold=65, capacity=10_000):
    return planner.allowed_millis(capacity, threshold, prod_cores=prod, system_cores=system, reserved_cores=reserved)


def test_what_mid_may_use_is_what_prod_and_the_larger_of_system_and_reserve_leave_below_the_threshold():
    assert allowed() == 2500
    assert allowed(system=2.0) == 1500
    assert allowed(prod=9.0) == 0


def test_every_container_gets_the_same_share_of_its_mid_cpu():
    some = [MidContainer("c0", "x", mid, 10, mid, mid, mid) for mid in (1000, 2000, 500)]
    assert planner.limits_millis(1750, some) == [500, 1000, 250]
    assert planner.limits_millis(3500, some) == [1000, 2000, 500]


def test_what_a_stricter_limit_leaves_goes_to_the_others():
    some = [MidContainer("c0", "x", 1000, 10, own, own, 1000) for own in (100, 1000)]
    assert planner.limits_millis(900, some) == [100, 800]


@given(st.integers(0, 300_000), st.lists(containers(), max_size=60))
def test_limits_are_within_bounds_and_within_what_is_allowed(millis, some):
    limits = planner.limits_millis(millis, some)
    assert all(each.floor_millis <= limit <= each.original_millis for each, limit in zip(some, limits, strict=True))
    assert sum(limits) <= max(millis, sum(each.floor_millis for each in some))
    if some and sum(limits) < sum(each.original_millis for each in some):
        assert millis - sum(limits) < len(some)


def test_a_huge_limit_of_mid_cpu_takes_nothing_from_the_others():
    honest = [MidContainer("c0", "x", 2000, 10, 2000, 2000, 2000)] * 2
    huge = MidContainer("c0", "x", 10**9, 10, 10**9, 10**9, 1)
    assert planner.limits_millis(3000, [*honest, huge]) == [1495, 1495, 10]
    assert planner.limits_millis(6000, [*honest, huge]) == [2000, 2000, 2000]
