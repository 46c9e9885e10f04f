"""Properties of every published value, from inputs to the patch."""

import datetime as dt
import json

from hypothesis import given, settings
from hypothesis import strategies as st

from api_types.kubernetes import pods
from api_types.node_metric import mid_resource
from api_types.node_metric.mid_resource import Terms
from manager.mid_resource import formula
from manager.mid_resource import patch as writing
from manager.mid_resource.decision import Action
from manager.mid_resource.formula import PublishedMid
from manager.mid_resource.reasons import STATUS, Reason, Status

CPU, MEMORY = "kubernetes.io/mid-cpu", "kubernetes.io/mid-memory"
NATIVE = {CPU: "cpu", MEMORY: "memory"}
NOW = dt.datetime(2026, 11, 21, 12, tzinfo=dt.UTC)

amounts = st.integers(0, 2**50) | st.integers(0, 20_000)
percents = st.integers(0, 100)


def evaluated(*, reported, has_floor, **inputs):
    return mid_resource.calculate(Terms(**inputs), reclaimable_reported=reported, has_floor=has_floor)


one = st.builds(
    evaluated, allocatable=amounts, capacity=amounts, allocated_prod=amounts, allocated_mid=amounts,
    peak_prod=st.none() | amounts, reported=st.none() | amounts,
    unused=amounts, usable=st.none() | amounts, bound_before=st.none() | amounts, reclaim_ratio_percent=percents,
    threshold_percent=percents, unallocated_percent=percents, has_floor=st.booleans(),
    static_percent=st.none() | st.integers(0, 200),
)  # fmt: skip
inputs = st.fixed_dictionaries({"cpu": one, "memory": one})
lists = st.dictionaries(st.sampled_from([CPU, MEMORY]), amounts)
published = st.builds(PublishedMid, lists, lists)
increases = st.integers(1, 100)
withdrawals = st.sampled_from([reason for reason in Reason if STATUS[reason] is Status.WITHDRAWN])


def share(whole, percent):
    """Return a percentage of an amount, rounded down."""
    return whole * percent // 100


def calculated(given_inputs, before, increase, same_sample):
    return formula.calculated(given_inputs, before, increase, same_sample=same_sample)


@given(inputs, published, increases, st.booleans())
def test_the_terms_on_the_node_add_up_to_the_value_beside_them(given_inputs, before, increase, same_sample):
    target = calculated(given_inputs, before, increase, same_sample)
    made = writing.make_status(target.reason, NOW, lines=target.lines)
    patch = writing.node_patch(pods.Node(), target, made)
    on_node = json.loads(patch["metadata"]["annotations"]["koordinator.sh/mid-resource-status"])
    for mid in (CPU, MEMORY):
        line = on_node["resources"][mid]
        offered = min(line["reclaimable"], line["cap"]) + line["unallocatedShare"]
        bounds = [line[bound] for bound in ("unused", "usable", "totalLimit") if bound in line]
        assert line["calculated"] == min([offered, *bounds])
        requested = line.get("boundBefore", line["allocatedMid"])
        assert line.get("floor", 0) in (0, min(requested, line["capacity"]))
        value = max(line["calculated"], line.get("floor", 0))
        assert line["published"] == min(value, line.get("riseLimit", value))
        assert patch["status"]["capacity"][mid] == patch["status"]["allocatable"][mid] == str(line["published"])


@given(inputs, published, increases, st.booleans())
def test_a_value_lies_between_the_floor_and_the_least_of_the_bounds(given_inputs, before, increase, same_sample):
    target = calculated(given_inputs, before, increase, same_sample)
    for mid, native in NATIVE.items():
        of = given_inputs[native]
        floor = of.floor or 0
        whole = of.allocatable if of.static_percent is None else of.capacity
        added = 0 if of.static_percent is not None else max(of.allocatable - of.allocated_prod, 0)
        cap = share(whole, of.threshold_percent) + share(added, of.unallocated_percent or 0)
        cap = cap if of.static_percent is not None else min(cap, of.unused)
        assert floor <= target.values[mid] <= max(cap, floor)


@given(inputs, published, increases, st.booleans())
def test_a_rise_is_bounded_per_sample_and_a_fall_never_is(given_inputs, before, increase, same_sample):
    unbounded = calculated(given_inputs, before, 100, same_sample=False)
    target = calculated(given_inputs, before, increase, same_sample)
    for mid, native in NATIVE.items():
        of, old, whole = given_inputs[native], before.allocatable.get(mid, 0), unbounded.values[mid]
        floor = of.floor or 0
        if increase < 100:
            step = 0 if same_sample else share(of.allocatable, increase)
            assert target.values[mid] <= max(old + step, floor)
        if whole <= old:
            assert target.values[mid] == whole
        assert target.values[mid] <= whole


@settings(max_examples=20)
@given(inputs, increases)
def test_bounded_rises_arrive_in_the_end(given_inputs, increase):
    before, goal = PublishedMid({}, {}), calculated(given_inputs, PublishedMid({}, {}), 100, same_sample=False).values
    for _ in range(100):
        values = calculated(given_inputs, before, max(increase, 2), same_sample=False).values
        before = PublishedMid(values, values)
    for mid, native in NATIVE.items():
        reach = 100 * share(given_inputs[native].allocatable, max(increase, 2))
        assert before.allocatable[mid] == goal[mid] or before.allocatable[mid] >= reach


@given(inputs, published, st.floats(0.01, 1), st.booleans())
def test_a_value_just_written_is_not_written_again(given_inputs, before, threshold, same_sample):
    target = calculated(given_inputs, before, 100, same_sample)
    values = {mid: value for mid, value in target.values.items() if value is not None}
    written = writing.make_status(target.reason, NOW, lines=target.lines)

    def cause(now):
        return writing.patch_reason(
            target, Action.CALCULATE, PublishedMid(values, values), written,
            threshold=threshold, refresh_period=dt.timedelta(seconds=300), now=now,
        )  # fmt: skip

    assert cause(NOW + dt.timedelta(seconds=300)) is None
    assert cause(NOW + dt.timedelta(seconds=301)) is writing.PatchReason.REFRESH


@given(st.dictionaries(st.sampled_from([CPU, MEMORY]), amounts), published, withdrawals)
def test_a_withdrawal_publishes_the_bound_requests_and_no_more(bound, before, reason):
    floors = {mid: Terms(floor=bound.get(mid, 0), published=bound.get(mid, 0)) for mid in (CPU, MEMORY)}
    target = formula.withdrawn(floors, reason)
    if any(bound.values()):
        assert target.values == {CPU: bound.get(CPU, 0), MEMORY: bound.get(MEMORY, 0)}
    else:
        assert target.values == {CPU: None, MEMORY: None}
    wanted = {mid: value for mid, value in target.values.items() if value is not None}
    cause = writing.patch_reason(
        target, Action.WITHDRAW, before, None, threshold=1.0, refresh_period=dt.timedelta(1), now=NOW
    )
    is_moved = cause in (writing.PatchReason.KEY_MISSING, writing.PatchReason.MOVED)
    assert is_moved is (before != PublishedMid(wanted, wanted))


@given(published, inputs)
def test_keeps_the_last_written_values_or_else_the_published_ones(before, given_inputs):
    last = calculated(given_inputs, before, 100, same_sample=False)
    written = writing.make_status(last.reason, NOW, lines=last.lines)
    assert formula.kept(before, Reason.NO_PREDICTION, written).values == last.values
    for unwritten in (None, writing.make_status(last.reason, NOW)):
        values = formula.kept(before, Reason.NO_PREDICTION, unwritten).values
        assert values == {mid: before.allocatable.get(mid) for mid in (CPU, MEMORY)}
