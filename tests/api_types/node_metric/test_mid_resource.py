import pytest
from hypothesis import given
from hypothesis import strategies as st

from api_types.node_metric import mid_resource
from api_types.node_metric.mid_resource import Source, Terms

NODE = {
    "allocatable": 10_000, "capacity": 12_000, "allocated_prod": 8_000, "allocated_mid": 0, "peak_prod": 3_000,
    "unused": 12_000,
}  # fmt: skip


def calculate(node):
    """Evaluate the formula; `reclaimable_reported` and `floor` are no terms."""
    terms = Terms(**{name: node[name] for name in node.keys() - {"reclaimable_reported", "floor"}})
    reported, has_floor = node.get("reclaimable_reported"), node.get("floor", True)
    return mid_resource.calculate(terms, reclaimable_reported=reported, has_floor=has_floor)


def value(**changes):
    return calculate(NODE | changes).value


def test_mid_is_what_prod_requests_and_does_not_need():
    terms = calculate(NODE)
    assert terms == Terms(
        **NODE, source=Source.PEAK, reclaimable=5_000, cap=10_000, unallocated=2_000, unallocated_share=0,
        calculated=5_000, floor=0,
    )  # fmt: skip
    assert terms.value == 5_000


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
    memory = Terms(
        allocatable=64 * gib, capacity=64 * gib, allocated_prod=40 * gib, allocated_mid=0, peak_prod=10 * gib,
        unused=(64 - 10 - 50 - 1) * gib,
    )  # fmt: skip
    assert mid_resource.calculate(memory).calculated == 3 * gib


amounts = st.integers(min_value=0, max_value=2**50)
percents = st.integers(min_value=0, max_value=100)
inputs = st.fixed_dictionaries({
    "allocatable": amounts,
    "capacity": amounts,
    "allocated_prod": amounts,
    "allocated_mid": amounts,
    "peak_prod": amounts,
    "reclaimable_reported": st.none() | amounts,
    "unused": amounts,
    "bound_before": st.none() | amounts,
    "reclaim_ratio_percent": percents,
    "threshold_percent": percents,
    "unallocated_percent": percents,
    "floor": st.booleans(),
    "static_percent": st.none() | st.integers(min_value=0, max_value=200),
})  # fmt: skip


@given(inputs)
def test_the_terms_add_up(given_inputs):
    terms = calculate(given_inputs)
    offered = min(terms.reclaimable, terms.cap) + terms.unallocated_share
    assert terms.calculated == (offered if terms.unused is None else min(offered, terms.unused))
    assert terms.value == max(terms.calculated, terms.floor or 0)
    assert min(terms.reclaimable, terms.cap, terms.unallocated_share, terms.floor or 0) >= 0


@given(inputs)
def test_beside_the_floor_mid_lies_between_nothing_and_the_cap_plus_the_unallocated_share(given_inputs):
    free = given_inputs | {"floor": False}
    terms = calculate(free)
    assert terms.unused is None or terms.calculated <= terms.unused
    base = free["allocatable"] if free["static_percent"] is None else free["capacity"]
    assert terms.value >= 0
    assert (
        terms.value * 100 <= base * free["threshold_percent"] + (terms.unallocated or 0) * free["unallocated_percent"]
    )


@given(inputs)
def test_the_floor_covers_running_mid_pods_up_to_the_capacity_and_changes_nothing_else(given_inputs):
    terms = calculate(given_inputs | {"floor": True, "bound_before": None})
    assert terms.value >= min(given_inputs["allocated_mid"], given_inputs["capacity"])
    assert terms.floor <= given_inputs["capacity"]
    assert terms.calculated == calculate(given_inputs | {"floor": False}).value


@given(inputs, amounts)
def test_mid_never_exceeds_what_the_node_has_beyond_the_peak(given_inputs, peak):
    free = given_inputs | {"floor": False, "static_percent": None, "peak_prod": peak}
    terms = calculate(free)
    assert min(terms.reclaimable, terms.cap) <= max(free["allocatable"] - peak, 0)


@pytest.mark.parametrize(
    "name",
    ["allocatable", "capacity", "allocated_mid", "unused", "reclaim_ratio_percent", "threshold_percent",
     "unallocated_percent"],
)  # fmt: skip
@given(given_inputs=inputs, more=st.integers(min_value=0, max_value=1000))
def test_mid_rises_with_each_of_these(name, given_inputs, more):
    raised = given_inputs | {name: given_inputs[name] + more}
    assert calculate(raised).value >= calculate(given_inputs).value


@given(inputs, st.integers(0, 200), amounts, amounts)
def test_in_static_mode_neither_peak_nor_requests_of_prod_count(given_inputs, percent, peak, requested):
    before = given_inputs | {"static_percent": percent}
    after = before | {"peak_prod": peak, "allocated_prod": requested}
    assert calculate(after).value == calculate(before).value


@pytest.mark.parametrize(
    ("name", "terms", "binds"),
    [
        ("cap", {"reclaimable": 9, "cap": 8}, True),
        ("cap", {"reclaimable": 9, "cap": 9}, False),
        ("unused", {"reclaimable": 9, "cap": 8, "unallocated_share": 2, "unused": 9}, True),
        ("unused", {"reclaimable": 9, "cap": 8, "unallocated_share": 2, "unused": 10}, False),
        ("floor", {"calculated": 5, "floor": 6}, True),
        ("floor", {"calculated": 5, "floor": 5}, False),
        ("rise_limit", {"rise_limit": 5}, True),
    ],
)
def test_a_bound_binds_where_it_changes_the_result(name, terms, binds):
    (term,) = (term for term in mid_resource.TERMS if term.name == name)
    assert term.binds(Terms(**terms)) is binds
