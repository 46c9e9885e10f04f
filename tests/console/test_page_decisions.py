"""The page Decisions: the pods that wait, the Events about them, and the decisions on one pod."""

import datetime as dt

import pytest

from api_types.kubernetes import pods
from console.cluster.details import Listed, PendingPod, PendingPodSpec, PendingPodStatus, Records
from console.pages import decisions
from console.pages.shown import UNKNOWN
from fleet import wire
from fleet.wire import WireCondition
from tests.console import fleets

pytestmark = pytest.mark.slow

NOW = fleets.NOW


def shown(pending=(), events=(), records=None, pod=""):
    return decisions.context(
        Listed(None if pending is None else tuple(pending)),
        Listed(None if events is None else tuple(events)),
        records or Records(),
        pod,
        NOW,
    )


def waiting(name, message=None, seconds=None, scheduler="default-scheduler"):
    created = None if seconds is None else (NOW - dt.timedelta(seconds=seconds)).isoformat()
    conditions = [WireCondition("Ready", "False", "Other", "not this one")]
    if message is not None:
        conditions.append(WireCondition("PodScheduled", "False", "Unschedulable", message))
    return PendingPod(
        pods.ObjectMeta(name=name, namespace="shop", creation_timestamp=created or ""),
        PendingPodSpec(scheduler_name=scheduler),
        PendingPodStatus(conditions, "Pending"),
    )


def event(name):
    return wire.WireEvent(wire.ObjectReference("Pod", name), "Warning", "FailedScheduling", f"no node for {name}")


def test_lists_that_were_not_read_are_told_from_empty_ones():
    values = shown(None, [event("web-0")])
    assert (values["pending_unread"], values["events_unread"], values["pending_count"]) == (True, False, 0)
    values = shown([waiting("web-0")], None)
    assert (values["pending_unread"], values["events_unread"], values["pending_count"]) == (False, True, 1)


def test_pods_that_wait_are_grouped_by_the_message_of_the_scheduler_the_largest_group_first():
    values = shown(
        [
            *(waiting(f"few-{number}", "too few nodes", 30 + number) for number in range(5)),
            *(waiting(f"cpu-{number}", "no CPU", 119 - number, f"s{number}") for number in range(6)),
            waiting("new"),
            waiting("long", "m" * 1_001),
        ]
    )
    assert values["pending_count"] == 13
    cpu, few, new, long = values["groups"]
    assert cpu == {
        "reason": "Unschedulable",
        "message": "no CPU",
        "count": 6,
        "age": "119 s",
        "schedulers": "s0, s1, s2, s3, s4",
        "pods": [f"shop/cpu-{number}" for number in range(5)],
        "more": 1,
    }
    assert (few["message"], few["count"], few["age"], few["more"]) == ("too few nodes", 5, "34 s", 0)
    assert few["schedulers"] == "default-scheduler"
    assert (new["reason"], new["message"], new["count"], new["age"], new["more"]) == (
        "NotTriedYet", "no scheduler has reported on it", 1, UNKNOWN, 0,
    )  # fmt: skip
    assert long["message"] == "m" * 1_000


@pytest.mark.parametrize(("pod", "found"), [("", 50), ("shop/web-1", 40), ("web-1", 40), ("other", 0)])
def test_events_are_those_about_the_pod_of_the_filter(pod, found):
    values = shown((), [event(f"web-{number // 40}") for number in range(80)], pod=pod)
    assert len(values["events"]) == found
    assert {each["reason"] for each in values["events"]} <= {"FailedScheduling"}


@pytest.mark.parametrize(("asked", "listed", "named", "more"), [(50, 50, 50, 0), (60, 52, 50, 10), (3, 3, 3, 0)])
def test_a_decision_names_fifty_nodes_and_counts_the_others(asked, listed, named, more):
    nodes = [
        {"node": f"n{number}", "result": "rejected", "sentence": "s" * 1_001, "score": 0} for number in range(listed)
    ]
    decision = {"at": NOW.timestamp() - 7, "outcome": "bound", "nodesAsked": asked, "nodesPassed": 1, "nodes": nodes}
    (row,) = shown(records=Records((), "shop/web-0", [decision]))["decisions"]
    assert (row["age"], row["outcome"], row["passed"]) == ("7 s", "bound", f"1 of {asked}")
    assert (len(row["nodes"]), row["more"]) == (named, more)
    assert row["nodes"][0] == {"name": "n0", "result": "rejected", "score": 0, "plugin": "", "sentence": "s" * 1_000}


def test_a_decision_without_values_is_no_error():
    records = Records([{}], "shop/web-0", [{"nodes": ["no node"], "nodesAsked": None, "at": "yesterday"}])
    values = shown(records=records)
    assert values["records"] == [{"pod": "", "age": UNKNOWN, "passed": "None of None", "node": ""}]
    (row,) = values["decisions"]
    assert (row["age"], row["nodes"], row["more"]) == (UNKNOWN, [], 0)
