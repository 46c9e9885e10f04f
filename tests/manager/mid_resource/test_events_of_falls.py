"""Mid resources that fall by more than a tenth of the node have an Event; smaller steps have none."""

import pytest

from api_types.node_metric.mid_status import Line
from manager.mid_resource import node_events
from manager.mid_resource.calculator import Published, Target
from manager.mid_resource.reasons import Reason
from tests.manager.conftest import MID

CPU, MEMORY = MID
FALL = "Mid resources fell by more than a tenth of the node: {}; `koordctl explain node` shows every term"


def fall(before, after, allocatable, *, reason=Reason.CALCULATED, mid_pods=None):
    """Return the message about a node whose Mid CPU is changed and whose Mid memory is not."""
    line = Line(allocatable=allocatable, allocated_mid=mid_pods)
    target = Target({CPU: after, MEMORY: 0}, reason, {CPU: line, MEMORY: Line(allocatable=9)})
    seen = {} if before is None else {CPU: before}
    event = node_events.of_fall(target, Published(seen, seen))
    return event.message if event else None


@pytest.mark.parametrize(
    ("before", "after", "allocatable"),
    [(20, 10, 100), (20, 20, 100), (10, 30, 100), (None, 0, 9), (None, None, 9), (None, 0, None)],
)
def test_a_fall_of_a_tenth_and_what_was_not_published_have_no_event(before, after, allocatable):
    assert fall(before, after, allocatable) is None


@pytest.mark.parametrize(
    ("before", "after", "allocatable", "text"),
    [
        (20, 9, 100, f"{CPU} from 20 to 9 of 100"),
        (1, None, 9, f"{CPU} from 1 to 0 of 9"),
        (1, 0, None, f"{CPU} from 1 to 0 of None"),
    ],
)
def test_a_fall_of_more_than_a_tenth_names_both_values(before, after, allocatable, text):
    assert fall(before, after, allocatable) == FALL.format(text)


def test_the_requests_of_mid_pods_are_named_where_there_are_any():
    assert fall(50, 9, 100, mid_pods=1) == FALL.format(f"{CPU} from 50 to 9 of 100 (Mid pods request 1)")
    assert fall(50, 9, 100, mid_pods=0) == FALL.format(f"{CPU} from 50 to 9 of 100")


def test_each_resource_that_falls_is_named():
    lines = {CPU: Line(allocatable=100), MEMORY: Line(allocatable=1000)}
    published = {CPU: 20, MEMORY: 200}
    target = Target({CPU: 0, MEMORY: 0}, Reason.CALCULATED, lines)
    event = node_events.of_fall(target, Published(published, published))
    text = f"{CPU} from 20 to 0 of 100, {MEMORY} from 200 to 0 of 1000"
    assert event == ("Normal", "MidResourceReduced", FALL.format(text))


@pytest.mark.parametrize("reason", [Reason.SAMPLE_TOO_OLD, Reason.COLOCATION_DISABLED])
def test_a_withdrawal_is_not_called_a_fall(reason):
    assert fall(50, None, 100, reason=reason) is None
