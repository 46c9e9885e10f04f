import datetime as dt

import pytest

from manager.mid_resource import calculator, status_annotation
from manager.mid_resource import patch as writing
from manager.mid_resource.calculator import Published, Target
from manager.mid_resource.decision import Action
from manager.mid_resource.patch import PatchReason
from manager.mid_resource.reasons import Reason

NOW = dt.datetime(2026, 11, 21, 12, tzinfo=dt.UTC)
CPU, MEMORY = "kubernetes.io/mid-cpu", "kubernetes.io/mid-memory"


def values(cpu, memory=1_000):
    return {CPU: cpu, MEMORY: memory}


def published(cpu, memory=1_000):
    return Published(values(cpu, memory), values(cpu, memory))


def written(seconds_ago=10, reason=Reason.CALCULATED):
    return status_annotation.make(reason, NOW - dt.timedelta(seconds=seconds_ago))


def cause(target, before, receipt_of_node=None, verdict=Action.CALCULATE):
    return writing.cause(
        target, verdict, before, receipt_of_node, threshold=0.1, refresh_period=dt.timedelta(seconds=300), now=NOW
    )


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (published(1_000), 1_100, None),  # exactly the threshold
        (published(1_000), 1_101, PatchReason.MOVED),
        (published(1_000), 899, PatchReason.MOVED),
        (published(0), 1, PatchReason.MOVED),
        (published(0), 0, None),
        (Published({}, {}), 0, PatchReason.KEY_MISSING),
        (Published(values(1_000), {MEMORY: 1_000}), 1_000, PatchReason.KEY_MISSING),
        (Published({MEMORY: 1_000}, values(1_000)), 1_000, PatchReason.KEY_MISSING),  # somebody took it out of capacity
    ],
)
def test_a_calculated_value_is_written_when_it_moved_or_a_key_is_missing(before, after, expected):
    assert cause(Target(values(after), Reason.CALCULATED), before, written()) is expected


@pytest.mark.parametrize(
    ("receipt_of_node", "expected"),
    [
        (written(300), None),
        (written(301), PatchReason.REFRESH),
        (None, PatchReason.REFRESH),
        (written(-3600), PatchReason.REFRESH),
    ],
)
def test_it_is_written_again_after_a_while_or_without_a_record_of_a_write(receipt_of_node, expected):
    assert cause(Target(values(1_000), Reason.CALCULATED), published(1_000), receipt_of_node) is expected


def test_a_running_pod_that_is_not_covered_is_worth_a_write_however_small():
    lines = {CPU: status_annotation.Line(floor=1_001)}
    target = Target(values(1_001), Reason.CALCULATED, lines)
    assert cause(target, published(1_000), written()) is PatchReason.BELOW_FLOOR


def test_what_is_kept_is_only_refreshed_and_only_where_something_is():
    target = calculator.kept(published(1_000), Reason.NO_PREDICTION, None)
    assert cause(target, published(1_000), written(10), Action.KEEP) is None
    assert cause(target, published(1_000), written(500), Action.KEEP) is PatchReason.REFRESH
    nothing = calculator.kept(Published({}, {}), Reason.NO_PREDICTION, None)
    assert cause(nothing, Published({}, {}), None, Action.KEEP) is None


def test_a_key_that_somebody_took_is_put_back_as_it_was_written_last():
    line = status_annotation.Line(published=1_000)
    last = status_annotation.make(Reason.CALCULATED, NOW, lines={CPU: line, MEMORY: line})
    left = Published({MEMORY: 1_000}, {MEMORY: 1_000})
    target = calculator.kept(left, Reason.NO_PREDICTION, last)
    assert target.values == values(1_000)
    assert cause(target, left, last, Action.KEEP) is PatchReason.KEY_MISSING


def test_a_withdrawal_is_exact():
    target = calculator.withdrawn(values(1_001), Reason.SAMPLE_TOO_OLD)
    assert cause(target, published(1_000), written(), Action.WITHDRAW) is PatchReason.WITHDRAWAL
    done = written(reason=Reason.SAMPLE_TOO_OLD)
    assert cause(target, published(1_001), done, Action.WITHDRAW) is None


def test_a_node_without_mid_gets_its_explanation_once():
    target = calculator.withdrawn(None, Reason.NEVER_REPORTED)
    nothing = Published({}, {})
    assert cause(target, nothing, None, Action.WITHDRAW) is PatchReason.EXPLANATION
    assert cause(target, nothing, written(9999, Reason.NEVER_REPORTED), Action.WITHDRAW) is None


def test_a_node_that_left_colocation_carries_nothing_of_ours():
    target = calculator.withdrawn(None, Reason.COLOCATION_DISABLED)
    nothing = Published({}, {})
    assert cause(target, nothing, None, Action.WITHDRAW) is None
    assert cause(target, nothing, written(), Action.WITHDRAW) is PatchReason.EXPLANATION
    patch = writing.node_patch(target, written())
    assert patch["metadata"]["annotations"] == {"koordinator.sh/mid-resource-receipt": None}


def test_one_patch_carries_both_resources_in_both_lists_and_the_receipt():
    patch = writing.node_patch(Target(values(4_000, None), Reason.CALCULATED), written())
    assert patch["status"] == {
        "capacity": {CPU: "4000", MEMORY: None},
        "allocatable": {CPU: "4000", MEMORY: None},
    }
    assert '"reason":"Calculated"' in patch["metadata"]["annotations"]["koordinator.sh/mid-resource-receipt"]
