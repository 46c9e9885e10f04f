import datetime as dt

import msgspec
import pytest

from api_types.kubernetes import pods
from api_types.node_metric import mid_resource
from api_types.node_metric.mid_resource import Terms
from manager.mid_resource import formula, patch
from manager.mid_resource.formula import Floor, Published
from manager.mid_resource.reasons import Reason

CPU, MEMORY = "kubernetes.io/mid-cpu", "kubernetes.io/mid-memory"
NOTHING = Published({}, {})
NOW = dt.datetime(2026, 11, 21, 12, tzinfo=dt.UTC)


NODE = Terms(allocatable=10_000, capacity=10_000, allocated_prod=8_000, allocated_mid=0, peak_prod=2_000, unused=10_000)


def evaluated(**changes):
    one = mid_resource.calculate(msgspec.structs.replace(NODE, **changes))
    return {"cpu": one, "memory": one}


def published(value):
    return Published({CPU: value, MEMORY: value}, {CPU: value, MEMORY: value})


def test_both_resources_are_calculated_with_all_their_terms():
    target = formula.calculated(evaluated(), NOTHING, 100, same_sample=False)
    assert target.values == {CPU: 6_000, MEMORY: 6_000}
    assert target.reason is Reason.CALCULATED
    line = target.lines[CPU]
    assert (line.published, line.calculated, line.reclaimable, line.cap, line.peak_prod) == (
        6_000, 6_000, 6_000, 10_000, 2_000,
    )  # fmt: skip
    assert line.rise_limit is None


@pytest.mark.parametrize(
    ("before", "percent", "same_sample", "after"),
    [
        (NOTHING, 10, False, 1_000),
        (published(1_000), 10, False, 2_000),
        (published(1_000), 10, True, 1_000),  # a sample allows one rise
        (published(5_500), 10, False, 6_000),
        (published(9_000), 10, False, 6_000),  # a fall is never slowed down
        (published(9_000), 10, True, 6_000),
        (NOTHING, 100, True, 6_000),  # unlimited: a changed configuration counts at once
    ],
)
def test_a_rise_is_bounded_per_update(before, percent, same_sample, after):
    target = formula.calculated(evaluated(), before, percent, same_sample=same_sample)
    assert target.values == {CPU: after, MEMORY: after}


def test_a_bound_on_the_rise_never_uncovers_a_running_pod():
    terms = evaluated(allocated_prod=0, allocated_mid=5_000, peak_prod=0)
    target = formula.calculated(terms, NOTHING, 1, same_sample=False)
    assert target.values[CPU] == 5_000


@pytest.mark.parametrize("percent", [1, 25, 100])
@pytest.mark.parametrize("same_sample", [True, False])
def test_a_lost_key_returns_to_its_value_also_under_a_limit_of_the_rise(percent, same_sample):
    written = patch.make_status(
        Reason.CALCULATED, NOW, lines=formula.calculated(evaluated(), NOTHING, 100, same_sample=False).lines
    )
    target = formula.calculated(evaluated(), NOTHING, percent, same_sample=same_sample, written=written)
    assert target.values == {CPU: 6_000, MEMORY: 6_000}


def test_a_withdrawal_publishes_exactly_the_floor():
    target = formula.withdrawn(Floor({CPU: 500}), Reason.SAMPLE_TOO_OLD)
    assert target.values == {CPU: 500, MEMORY: 0}
    assert not target.removes_all()


@pytest.mark.parametrize("floor", [None, Floor({}), Floor({CPU: 0, MEMORY: 0})])
def test_a_withdrawal_with_nothing_bound_removes_the_keys(floor):
    target = formula.withdrawn(floor, Reason.SAMPLE_TOO_OLD)
    assert target.values == {CPU: None, MEMORY: None}
    assert target.removes_all()


def test_zero_is_published_as_zero():
    target = formula.calculated(evaluated(peak_prod=20_000), NOTHING, 100, same_sample=False)
    assert target.values == {CPU: 0, MEMORY: 0}


def test_reads_published_values_in_every_notation():
    node = pods.Node(status=pods.NodeStatus(capacity={CPU: "4k", "cpu": "4"}, allocatable={MEMORY: "1Ki"}))
    assert formula.published_on(node) == Published({CPU: 4_000}, {MEMORY: 1_024})
