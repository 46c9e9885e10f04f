"""Values at the bound of a rise, and at the floor."""

import pytest

from api_types.node_metric.mid_status import Line
from manager.mid_resource import calculator
from manager.mid_resource.calculator import Published, Target
from manager.mid_resource.patch import PatchReason
from manager.mid_resource.reasons import Reason
from tests.manager.mid_resource.test_calculator import CPU, MEMORY, inputs, published
from tests.manager.mid_resource.test_patch import cause, values, written
from tests.manager.mid_resource.test_patch import published as published_of


@pytest.mark.parametrize(
    ("before", "value", "rise_limit"), [(4_999, 5_999, 5_999), (5_000, 6_000, None), (5_001, 6_000, None)]
)
def test_a_rise_is_limited_only_where_more_is_wanted(before, value, rise_limit):
    """The node leaves 10,000 to pods and may rise by a tenth of that; 6,000 are wanted."""
    target = calculator.calculated(inputs(), published(before), 10, same_sample=False)
    assert target.values == {CPU: value, MEMORY: value}
    assert [target.lines[mid].rise_limit for mid in (CPU, MEMORY)] == [rise_limit] * 2


@pytest.mark.parametrize(
    ("capacity", "allocatable", "empty"),
    [({}, {}, True), ({CPU: 0}, {}, False), ({}, {MEMORY: 0}, False), ({CPU: 1}, {CPU: 1}, False)],
)
def test_a_node_with_a_key_in_either_list_publishes_something(capacity, allocatable, empty):
    assert Published(capacity, allocatable).is_empty() is empty


@pytest.mark.parametrize(("floor", "reason"), [(None, None), (0, None), (100, None), (101, PatchReason.BELOW_FLOOR)])
def test_a_small_change_is_written_only_where_pods_would_not_be_covered(floor, reason):
    lines = {CPU: Line(published=100, floor=floor), MEMORY: Line(published=1_000)}
    target = Target(values(100), Reason.CALCULATED, lines)
    assert cause(target, published_of(100), written()) is reason


def test_a_node_without_a_floor_may_publish_nothing():
    target = Target(values(0, 0), Reason.CALCULATED, {CPU: Line(published=0), MEMORY: Line(published=0)})
    assert cause(target, published_of(0, 0), written()) is None
