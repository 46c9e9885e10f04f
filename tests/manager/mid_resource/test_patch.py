import datetime as dt

import pytest

from api_types.kubernetes import pods
from api_types.node_metric.mid_resource import Terms
from manager.mid_resource import patch
from manager.mid_resource import patch as patch_rules
from manager.mid_resource.decision import Action
from manager.mid_resource.formula import PublishedMid, Target
from manager.mid_resource.patch import PatchReason
from manager.mid_resource.reasons import Closed, Reason

NOW = dt.datetime(2026, 11, 21, 12, tzinfo=dt.UTC)
NODE = pods.Node(metadata=pods.ObjectMeta(name="n1", uid="u1"))
CPU, MEMORY = "kubernetes.io/mid-cpu", "kubernetes.io/mid-memory"


def values(cpu, memory=1_000):
    return {CPU: cpu, MEMORY: memory}


def published(cpu, memory=1_000):
    return PublishedMid(values(cpu, memory), values(cpu, memory))


def written(seconds_ago=10, reason=Reason.CALCULATED):
    return patch.make_status(reason, NOW - dt.timedelta(seconds=seconds_ago))


def cause(target, before, status_of_node=None, action=Action.CALCULATE):
    return patch_rules.patch_reason(
        target, action, before, status_of_node, threshold=0.1, refresh_period=dt.timedelta(seconds=300), now=NOW
    )


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (published(1_000), 1_100, None),  # exactly the threshold
        (published(1_000), 1_101, PatchReason.MOVED),
        (published(1_000), 899, PatchReason.MOVED),
        (published(0), 1, PatchReason.MOVED),
        (published(0), 0, None),
        (PublishedMid({}, {}), 0, PatchReason.KEY_MISSING),
        (PublishedMid(values(1_000), {MEMORY: 1_000}), 1_000, PatchReason.KEY_MISSING),
        (PublishedMid({MEMORY: 1_000}, values(1_000)), 1_000, PatchReason.KEY_MISSING),  # not in capacity
    ],
)
def test_a_calculated_value_is_written_when_it_moved_or_a_key_is_missing(before, after, expected):
    assert cause(Target(values(after), Reason.CALCULATED), before, written()) is expected


@pytest.mark.parametrize(
    ("status_of_node", "expected"),
    [
        (written(300), None),
        (written(301), PatchReason.REFRESH),
        (None, PatchReason.EXPLANATION),
        (written(-3600), PatchReason.REFRESH),
    ],
)
def test_refreshes_after_the_period_or_without_a_recorded_write(status_of_node, expected):
    assert cause(Target(values(1_000), Reason.CALCULATED), published(1_000), status_of_node) is expected


@pytest.mark.parametrize("action", [Action.CALCULATE, Action.KEEP])
@pytest.mark.parametrize("reason", [Reason.CALCULATED, Reason.NO_PREDICTION, Reason.AWAITING_FIRST_REPORT])
def test_a_reason_is_written_when_it_changes(action, reason):
    recorded = patch.make_status(Reason.CALCULATED, NOW, last_usable=NOW)
    expected = None if reason is Reason.CALCULATED else PatchReason.EXPLANATION
    assert cause(Target(values(1_000), reason), published(1_000), recorded, action) is expected


def test_an_ended_pod_of_the_floor_leaves_no_room_for_a_new_one():
    line = Terms(published=9_900, floor=9_900, bound_before=9_900)
    target = Target(values(9_900), Reason.CALCULATED, {CPU: line}, NOW)
    known = patch.make_status(Reason.CALCULATED, NOW, floor_before=NOW)
    assert cause(target, published(10_000), known) is PatchReason.MOVED
    assert cause(target, published(9_900), known) is None


@pytest.mark.parametrize(
    ("before", "expected"),
    [
        (published(1_000), None),
        (published(1_001), PatchReason.MOVED),  # less than the threshold of 10 %
        (published(1_000, 1_001), PatchReason.MOVED),
        (published(999), None),
    ],
)
def test_a_closed_node_is_written_where_it_has_more_room_than_its_pods_need(before, expected):
    known = patch.make_status(Reason.CALCULATED, NOW, closed=Closed.FROZEN)
    assert cause(Target(values(1_000), Reason.CALCULATED, closed=Closed.FROZEN), before, known) is expected


def test_one_patch_has_both_resources_in_both_lists_and_the_annotation():
    patch = patch_rules.node_patch(NODE, Target(values(4_000, None), Reason.CALCULATED), written())
    assert patch["status"] == {"capacity": {CPU: "4000", MEMORY: None}, "allocatable": {CPU: "4000", MEMORY: None}}
    assert '"reason":"Calculated"' in patch["metadata"]["annotations"]["koordinator.sh/mid-resource-status"]
