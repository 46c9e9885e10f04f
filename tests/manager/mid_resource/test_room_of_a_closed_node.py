"""When a closed node is written: where it has more room than its own pods need."""

import pytest

from manager.mid_resource import patch
from manager.mid_resource.formula import Target
from manager.mid_resource.patch import PatchReason
from manager.mid_resource.reasons import Closed, Reason
from tests.manager.mid_resource.test_patch import NOW, cause, published, values


def written(closed=Closed.FROZEN):
    return patch.make_status(Reason.CALCULATED, NOW, closed=closed)


@pytest.mark.parametrize(
    ("of_its_pods", "before", "expected"),
    [
        (values(1_000), published(1_000), None),
        (values(1_000), published(1_001), PatchReason.CLOSING),  # less than the threshold of 10 %
        (values(1_000, 999), published(1_000), PatchReason.CLOSING),
        (values(1_000), published(999), None),
    ],
)
def test_a_closed_node_is_written_where_it_has_more_room_than_its_pods_need(of_its_pods, before, expected):
    assert cause(Target(of_its_pods, Reason.CALCULATED, closed=Closed.FROZEN), before, written()) is expected
