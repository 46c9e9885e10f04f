import datetime as dt
from dataclasses import replace

import pytest

from api_types.kubernetes import pods
from api_types.node_metric import mid_eviction, mid_status
from api_types.node_metric.mid_report import UsableReport
from manager.cache.store import NodeStore
from manager.mid_resource import decision
from manager.mid_resource.decision import CANDIDATE_TAINT, CORDON_TAINT, LEAVING_TAINTS, Action, DecisionInputs, decide
from manager.mid_resource.eviction.shortage import Trigger
from manager.mid_resource.reasons import STATUS, Closed, Reason, Status
from manager.slo_config import strategy

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


STRATEGY = strategy.unconfigured()


def node(*taints, unschedulable=None, **metadata):
    found = [{"key": key, "effect": "NoSchedule", "timeAdded": "2026-11-21T12:00:00Z"} for key in taints]
    store = NodeStore()
    meta = {"name": "n1", "uid": "u1", "resourceVersion": "1", **metadata}
    store.update(store.decode({"metadata": meta, "spec": {"taints": found, "unschedulable": unschedulable}}))
    return store.get("n1")


@pytest.mark.parametrize("taint", sorted(LEAVING_TAINTS))
def test_a_node_with_a_taint_of_its_end_leaves_and_the_taint_is_named(taint):
    assert decision.classify(node("team", taint)) == (Closed.LEAVING, f"taint {taint}")


@pytest.mark.parametrize(
    ("given", "closed", "cause"),
    [
        (node(CANDIDATE_TAINT), Closed.SCALE_DOWN_CANDIDATE, f"taint {CANDIDATE_TAINT}"),
        (node(unschedulable=True), Closed.CORDONED, "spec.unschedulable"),
        (node(CORDON_TAINT), Closed.CORDONED, f"taint {CORDON_TAINT}"),
        (node(CANDIDATE_TAINT, unschedulable=True), Closed.CORDONED, "spec.unschedulable"),
        (node("karpenter.sh/disrupted", unschedulable=True), Closed.LEAVING, "taint karpenter.sh/disrupted"),
        (node("karpenter.sh/unregistered", unschedulable=False), Closed.NO, ""),
        (node("aws-node-termination-handler/rebalance-recommendation"), Closed.NO, ""),
        (pods.Node(), Closed.NO, ""),
    ],
)
def test_a_node_that_may_leave_or_is_cordoned_gives_up_no_pod(given, closed, cause):
    found = decision.classify(given)
    assert (found.closed, found.cause, found.is_leaving) == (closed, cause, closed is Closed.LEAVING)


@pytest.mark.parametrize(
    ("autoscaler", "metadata", "why"),
    [
        ("karpenter", {"labels": {"karpenter.sh/nodepool": "p"}}, ""),
        ("karpenter", {}, "it lacks the label karpenter.sh/nodepool: Karpenter did not make it"),
        ("cluster-autoscaler", {}, ""),
        ("none", {}, ""),
        ("none", {"annotations": {"karpenter.sh/do-not-disrupt": "true"}}, "karpenter.sh/do-not-disrupt is true"),
        ("none", {"annotations": {"karpenter.sh/do-not-disrupt": "false"}}, ""),
        (
            "cluster-autoscaler",
            {"annotations": {"cluster-autoscaler.kubernetes.io/scale-down-disabled": "true"}},
            "scale-down-disabled is true",
        ),
        ("none", {"labels": {"node-role.kubernetes.io/control-plane": ""}}, "node-role.kubernetes.io/control-plane"),
    ],
)
def test_a_node_that_no_autoscaler_would_remove_is_named(autoscaler, metadata, why):
    found = decision.why_kept(node(**metadata), autoscaler)
    assert found.endswith(why)
    assert bool(found) is bool(why)


def evicted(trigger):
    record = mid_eviction.MidEvictionRecord(time="2026-11-21T12:00:00Z", since="2026-11-21T12:00:00Z", trigger=trigger)
    return {"annotations": {"koordinator.sh/mid-eviction": mid_eviction.encode(record)}}


@pytest.mark.parametrize(
    ("given", "closed"),
    [
        (node(**evicted("MidCPUShort")), Closed.EVICTED),
        (node(**evicted(Trigger.MID_ONLY)), Closed.MID_ONLY),
        (node("karpenter.sh/disrupted", **evicted(Trigger.MID_ONLY)), Closed.LEAVING),
        (node(CANDIDATE_TAINT, **evicted("MidCPUShort")), Closed.EVICTED),
        (node(unschedulable=True), Closed.CORDONED),
        (node(), Closed.NO),
    ],
)
def test_the_strongest_reason_closes_a_node(given, closed):
    record = mid_eviction.eviction_record(given)
    assert decision.why_closed(decision.classify(given), record, STRATEGY) is closed


def test_the_taints_of_a_node_survive_a_write_of_its_annotation():
    store = NodeStore()
    first = node("karpenter.sh/disrupted")
    store.update(first)
    written = {"metadata": {"name": "n1", "uid": "u1", "resourceVersion": "2", "annotations": {}}, "spec": {
        "taints": [{"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}], "podCIDR": "10.0.0.0/24",
    }}  # fmt: skip
    store.update(store.decode(written))
    assert decision.classify(store.get("n1")).is_leaving
