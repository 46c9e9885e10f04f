import datetime as dt
from dataclasses import replace

import pytest

from api_types.node_metric import mid_status
from api_types.node_metric.mid_report import UsableReport
from manager.mid_resource.decision import Action, DecisionInputs, decide
from manager.mid_resource.reasons import STATUS, Reason, Status

NOW = dt.datetime(2026, 11, 21, 12, tzinfo=dt.UTC)
LAST_MOMENT = dt.datetime.max.replace(tzinfo=dt.UTC)


def ago(minutes):
    return NOW - dt.timedelta(minutes=minutes)


FINE = DecisionInputs(
    enabled=True,
    withdraws_for_shadow=False,
    degrade_after=dt.timedelta(minutes=15),
    node_metric_exists=True,
    exists_since=ago(1000),
    sample_time=ago(1),
    usable=UsableReport({}, {}, None, None),
    predicts=True,
    refused=None,
    last_usable=ago(2),
    last_prediction=ago(2),
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
        ({"sample_time": ago(-60), "last_usable": ago(16)}, Action.WITHDRAW, Reason.SAMPLE_TOO_OLD),
        ({"predicts": False}, Action.KEEP, Reason.NO_PREDICTION),
        ({"predicts": False, "last_prediction": ago(16)}, Action.CALCULATE, Reason.CALCULATED_WITHOUT_PREDICTION),
        ({"predicts": False, "last_prediction": None}, Action.CALCULATE, Reason.CALCULATED_WITHOUT_PREDICTION),
        ({"predicts": False, "last_prediction": LAST_MOMENT}, Action.CALCULATE, Reason.CALCULATED_WITHOUT_PREDICTION),
        ({"predicts": False, "last_prediction": None, "sample_time": ago(16)}, Action.WITHDRAW, Reason.SAMPLE_TOO_OLD),
        ({"usable": None, "refused": "cpu: seen -1"}, Action.KEEP, Reason.REPORT_REFUSED),
        ({"usable": None, "refused": "cpu: seen -1", "last_usable": ago(16)}, Action.WITHDRAW, Reason.SAMPLE_TOO_OLD),
        ({"withdraws_for_shadow": True}, Action.WITHDRAW, Reason.SHADOW),
        ({"withdraws_for_shadow": True, "enabled": False}, Action.WITHDRAW, Reason.COLOCATION_DISABLED),
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
    assert decide(replace(FINE, predicts=False), NOW).changes_at == ago(2) + FINE.degrade_after
    assert decide(replace(FINE, enabled=False), NOW).changes_at is None


def test_the_reasons_that_the_next_report_ends_are_withdrawals():
    assert {STATUS[Reason(code)] for code in mid_status.WITHOUT_REPORTS} == {Status.WITHDRAWN}
