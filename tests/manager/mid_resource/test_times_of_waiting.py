"""What is kept while a report is awaited is decided again when the time to degrade is over."""

import datetime as dt
from dataclasses import replace

import pytest

from manager.mid_resource.decision import Action, decide
from tests.manager.mid_resource.test_decision import FINE, NOW, ago

WAITING = replace(FINE, sample_time=None, exists_since=ago(3), last_usable=None)


@pytest.mark.parametrize(
    ("changes", "since"),
    [
        ({}, ago(3)),
        ({"last_usable": ago(5)}, ago(5)),  # its NodeMetric was created again
        ({"last_usable": ago(1)}, ago(3)),
        ({"sample_time": ago(4)}, ago(3)),  # a sample of an earlier NodeMetric
        ({"node_metric_exists": False, "last_usable": ago(5)}, ago(5)),
    ],
)
def test_values_are_kept_until_the_time_to_degrade_is_over(changes, since):
    inputs = replace(WAITING, **changes)
    end = since + inputs.degrade_after
    found = decide(inputs, NOW)
    assert (found.action, found.changes_at) == (Action.KEEP, end)
    assert decide(inputs, end).action is Action.KEEP
    assert decide(inputs, end + dt.timedelta(microseconds=1)).action is Action.WITHDRAW


@pytest.mark.parametrize("since", [None, ago(4), ago(3)])
def test_a_sample_taken_since_the_node_metric_exists_is_awaited_no_longer(since):
    assert decide(replace(WAITING, sample_time=ago(3), exists_since=since), NOW).action is Action.CALCULATE
