import datetime as dt
from dataclasses import replace

import pytest

from api_types.node_metric.mid_report import UsableReport
from manager.mid_resource.decision import Action, DecisionInputs, decide, is_degraded
from manager.mid_resource.reasons import TEXTS, Reason

NOW = dt.datetime(2026, 11, 21, 12, tzinfo=dt.UTC)
LAST_MOMENT = dt.datetime.max.replace(tzinfo=dt.UTC)


def ago(minutes):
    return NOW - dt.timedelta(minutes=minutes)


FINE = DecisionInputs(
    enabled=True,
    degrade_after=dt.timedelta(minutes=15),
    node_metric_exists=True,
    exists_since=ago(1000),
    sample_time=ago(1),
    usable=UsableReport({}, {}, None),
    refused=None,
    last_usable=ago(2),
)


@pytest.mark.parametrize(
    ("changes", "action", "reason"),
    [
        ({}, Action.CALCULATE, Reason.CALCULATED),
        ({"enabled": False}, Action.WITHDRAW, Reason.COLOCATION_DISABLED),
        ({"node_metric_exists": False, "last_usable": None}, Action.WITHDRAW, Reason.NODE_METRIC_MISSING),
        ({"node_metric_exists": False, "last_usable": ago(15)}, Action.KEEP, Reason.AWAITING_FIRST_REPORT),
        ({"node_metric_exists": False, "last_usable": ago(15.1)}, Action.WITHDRAW, Reason.NODE_METRIC_MISSING),
        ({"node_metric_exists": False, "last_usable": ago(-6)}, Action.WITHDRAW, Reason.NODE_METRIC_MISSING),
        ({"sample_time": ago(15)}, Action.CALCULATE, Reason.CALCULATED),
        ({"sample_time": ago(15.1)}, Action.WITHDRAW, Reason.SAMPLE_TOO_OLD),
        ({"sample_time": ago(-2)}, Action.CALCULATE, Reason.CALCULATED),  # a clock that is a little ahead
        ({"sample_time": ago(-60)}, Action.KEEP, Reason.REPORT_REFUSED),
        ({"sample_time": ago(-60), "last_usable": ago(16)}, Action.WITHDRAW, Reason.PREDICTION_TOO_OLD),
        ({"usable": None}, Action.KEEP, Reason.NO_PREDICTION),
        ({"usable": None, "last_usable": ago(16)}, Action.WITHDRAW, Reason.PREDICTION_TOO_OLD),
        ({"usable": None, "last_usable": None}, Action.WITHDRAW, Reason.PREDICTION_TOO_OLD),
        ({"usable": None, "last_usable": LAST_MOMENT}, Action.WITHDRAW, Reason.PREDICTION_TOO_OLD),
        ({"usable": None, "refused": "cpu: seen -1"}, Action.KEEP, Reason.REPORT_REFUSED),
        ({"sample_time": None}, Action.WITHDRAW, Reason.NEVER_REPORTED),
        ({"sample_time": None, "exists_since": ago(3)}, Action.KEEP, Reason.AWAITING_FIRST_REPORT),
        ({"sample_time": ago(5), "exists_since": ago(3)}, Action.KEEP, Reason.AWAITING_FIRST_REPORT),
        ({"sample_time": ago(3), "exists_since": ago(5)}, Action.CALCULATE, Reason.CALCULATED),
        ({"sample_time": None, "exists_since": None}, Action.WITHDRAW, Reason.NEVER_REPORTED),
    ],
)
def test_decides_by_the_inputs(changes, action, reason):
    found = decide(replace(FINE, **changes), NOW)
    assert (found.action, found.reason) == (action, reason)


def test_a_decision_has_the_time_at_which_it_changes():
    assert decide(FINE, NOW).changes_at == ago(1) + FINE.degrade_after
    assert decide(replace(FINE, usable=None), NOW).changes_at == ago(2) + FINE.degrade_after
    assert decide(replace(FINE, enabled=False), NOW).changes_at is None


def test_a_refusal_names_the_observed_value():
    assert decide(replace(FINE, refused="status.x: seen -1"), NOW).detail == "status.x: seen -1"
    assert "2026-11-21T13:00:00Z" in decide(replace(FINE, sample_time=ago(-60)), NOW).detail


def test_a_sample_of_exactly_the_degrade_time_counts():
    assert not is_degraded(ago(15), dt.timedelta(minutes=15), NOW)
    assert is_degraded(None, dt.timedelta(minutes=15), NOW)


def test_every_reason_has_one_text():
    assert set(TEXTS) == set(Reason)
    assert len(set(TEXTS.values())) == len(TEXTS)
