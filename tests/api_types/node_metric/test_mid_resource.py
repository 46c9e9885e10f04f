from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from api_types.node_metric import mid_resource
from api_types.node_metric.mid_resource import MidInputs, Source

NODE = MidInputs(
    allocatable=10_000, capacity=12_000, allocated_prod=8_000, allocated_mid=0, peak_prod=3_000, unused=12_000
)


def value(**changes):
    return mid_resource.calculate(replace(NODE, **changes)).value


def test_mid_is_what_prod_requests_and_does_not_need():
    terms = mid_resource.calculate(NODE)
    assert terms == mid_resource.MidTerms(
        source=Source.PEAK, reclaimable=5_000, cap=10_000, unallocated=2_000, unallocated_share=0, unused=12_000,
        calculated=5_000, floor=0, value=5_000,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"reclaim_ratio_percent": 80}, 3_400),  # 0.8 * 8000 - 3000
        ({"reclaim_ratio_percent": 10}, 0),  # 800 - 3000: nothing, not less
        ({"threshold_percent": 30}, 3_000),
        ({"threshold_percent": 0}, 0),
        ({"unallocated_percent": 100}, 7_000),  # 5000 + (10000 - 8000)
        ({"threshold_percent": 30, "unallocated_percent": 50}, 4_000),  # the share is added outside the cap
        ({"allocated_prod": 15_000}, 7_000),  # requested beyond the node: bounded by 10000 - 3000
        ({"allocated_prod": 15_000, "unallocated_percent": 100}, 7_000),  # nothing is left that no Prod pod requests
        ({"peak_prod": 11_000}, 0),
        ({"allocated_mid": 6_000}, 6_000),  # running Mid pods are never taken their key away
        ({"allocated_mid": 6_000, "floor": False}, 5_000),
        ({"allocated_mid": 10**9}, 12_000),  # a node has no more than its capacity, whatever a pod requests
        ({"allocated_mid": 9_000, "bound_before": 7_000}, 7_000),
        ({"unused": 4_000}, 4_000),
        ({"unused": 4_000, "threshold_percent": 30, "unallocated_percent": 100}, 4_000),  # of the whole offer
        ({"unused": -5}, 0),
        ({"unused": 0, "allocated_mid": 6_000}, 6_000),
        ({"static_percent": 25, "unused": 0}, 3_000),  # static mode does not read the usage
        ({"peak_prod": None}, 0),  # no prediction
        ({"peak_prod": None, "unallocated_percent": 100}, 2_000),  # the unallocated share needs none
        ({"peak_prod": None, "reclaimable_reported": 4_000}, 4_000),
        ({"peak_prod": None, "reclaimable_reported": 4_000, "threshold_percent": 20}, 2_000),
        ({"peak_prod": None, "reclaimable_reported": 0}, 0),
        ({"peak_prod": None, "reclaimable_reported": -5}, 0),
        ({"reclaimable_reported": 4_000}, 5_000),  # the peak is the better knowledge
        ({"static_percent": 25}, 3_000),  # of capacity
        ({"static_percent": 25, "threshold_percent": 10}, 1_200),
        ({"static_percent": 150}, 12_000),
        ({"static_percent": 0, "unallocated_percent": 100}, 0),
        ({"threshold_percent": 33, "allocatable": 101, "allocated_prod": 101, "peak_prod": 0}, 33),  # floored
    ],
)
def test_each_term_of_the_formula(changes, expected):
    assert value(**changes) == expected


def test_a_busy_best_effort_pod_leaves_no_memory_for_mid():
    gib = 1 << 30
    memory = MidInputs(
        allocatable=64 * gib, capacity=64 * gib, allocated_prod=40 * gib, allocated_mid=0, peak_prod=10 * gib,
        unused=(64 - 10 - 50 - 1) * gib,
    )  # fmt: skip
    assert mid_resource.calculate(memory).calculated == 3 * gib


amounts = st.integers(min_value=0, max_value=2**50)
percents = st.integers(min_value=0, max_value=100)
inputs = st.builds(
    MidInputs,
    allocatable=amounts,
    capacity=amounts,
    allocated_prod=amounts,
    allocated_mid=amounts,
    peak_prod=amounts,
    reclaimable_reported=st.none() | amounts,
    unused=amounts,
    bound_before=st.none() | amounts,
    reclaim_ratio_percent=percents,
    threshold_percent=percents,
    unallocated_percent=percents,
    floor=st.booleans(),
    static_percent=st.none() | st.integers(min_value=0, max_value=200),
)


@given(inputs)
def test_the_terms_add_up(given_inputs):
    terms = mid_resource.calculate(given_inputs)
    offered = min(terms.reclaimable, terms.cap) + terms.unallocated_share
    assert terms.calculated == (offered if terms.unused is None else min(offered, terms.unused))
    assert terms.value == max(terms.calculated, terms.floor)
    assert min(terms.reclaimable, terms.cap, terms.unallocated_share, terms.floor) >= 0


@given(inputs)
def test_beside_the_floor_mid_lies_between_nothing_and_the_cap_plus_the_unallocated_share(given_inputs):
    free = replace(given_inputs, floor=False)
    terms = mid_resource.calculate(free)
    assert terms.unused is None or terms.calculated <= terms.unused
    base = free.allocatable if free.static_percent is None else free.capacity
    assert terms.value >= 0
    assert terms.value * 100 <= base * free.threshold_percent + terms.unallocated * free.unallocated_percent


@given(inputs)
def test_the_floor_covers_running_mid_pods_up_to_the_capacity_and_changes_nothing_else(given_inputs):
    terms = mid_resource.calculate(replace(given_inputs, floor=True, bound_before=None))
    assert terms.value >= min(given_inputs.allocated_mid, given_inputs.capacity)
    assert terms.floor <= given_inputs.capacity
    assert terms.calculated == mid_resource.calculate(replace(given_inputs, floor=False)).value


@given(inputs, amounts)
def test_mid_never_exceeds_what_the_node_has_beyond_the_peak(given_inputs, peak):
    free = replace(given_inputs, floor=False, static_percent=None, peak_prod=peak)
    terms = mid_resource.calculate(free)
    assert min(terms.reclaimable, terms.cap) <= max(free.allocatable - peak, 0)


@pytest.mark.parametrize(
    "name",
    ["allocatable", "capacity", "allocated_mid", "unused", "reclaim_ratio_percent", "threshold_percent",
     "unallocated_percent"],
)  # fmt: skip
@given(given_inputs=inputs, more=st.integers(min_value=0, max_value=1000))
def test_mid_rises_with_each_of_these(name, given_inputs, more):
    raised = replace(given_inputs, **{name: getattr(given_inputs, name) + more})
    assert mid_resource.calculate(raised).value >= mid_resource.calculate(given_inputs).value


@given(inputs, amounts)
def test_mid_falls_with_the_peak(given_inputs, more):
    raised = replace(given_inputs, peak_prod=given_inputs.peak_prod + more)
    assert mid_resource.calculate(raised).value <= mid_resource.calculate(given_inputs).value


@given(inputs, amounts)
def test_mid_rises_with_prod_requests_where_nothing_unallocated_is_given_away(given_inputs, more):
    before = replace(given_inputs, unallocated_percent=0)
    after = replace(before, allocated_prod=before.allocated_prod + more)
    assert mid_resource.calculate(after).value >= mid_resource.calculate(before).value


@given(inputs, amounts, st.integers(min_value=0, max_value=1000))
def test_mid_rises_with_the_reported_reclaimable_where_there_is_no_peak(given_inputs, reported, more):
    before = replace(given_inputs, peak_prod=None, reclaimable_reported=reported)
    after = replace(before, reclaimable_reported=reported + more)
    assert mid_resource.calculate(after).value >= mid_resource.calculate(before).value


@pytest.mark.parametrize("name", ["capacity", "static_percent", "threshold_percent", "allocated_mid"])
@given(given_inputs=inputs, percent=st.integers(0, 200), more=st.integers(min_value=0, max_value=1000))
def test_in_static_mode_mid_rises_with_each_of_these(name, given_inputs, percent, more):
    before = replace(given_inputs, static_percent=percent)
    after = replace(before, **{name: getattr(before, name) + more})
    assert mid_resource.calculate(after).value >= mid_resource.calculate(before).value


@given(inputs, st.integers(0, 200), amounts, amounts)
def test_in_static_mode_neither_peak_nor_requests_of_prod_count(given_inputs, percent, peak, requested):
    before = replace(given_inputs, static_percent=percent)
    after = replace(before, peak_prod=peak, allocated_prod=requested)
    assert mid_resource.calculate(after).value == mid_resource.calculate(before).value


@given(inputs, amounts)
def test_mid_falls_with_prod_requests_where_only_the_unallocated_is_given_away(given_inputs, more):
    before = replace(given_inputs, threshold_percent=0, static_percent=None)
    after = replace(before, allocated_prod=before.allocated_prod + more)
    assert mid_resource.calculate(after).value <= mid_resource.calculate(before).value
