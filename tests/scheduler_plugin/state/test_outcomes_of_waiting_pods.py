"""Outcomes of the attempts on pods that are not bound, as their conditions show them."""

import msgspec
import pytest

from scheduler_plugin.state import waiting_pods
from scheduler_plugin.state.waiting_pods import WaitingPod, WaitingPods
from tests.scheduler_plugin import factories

READY = {"type": "Ready", "status": "False", "reason": "SchedulerError", "message": "of another condition"}


def with_conditions(*conditions):
    document = {"metadata": {"name": "web", "uid": "u"}, "status": {"conditions": list(conditions) or None}}
    return msgspec.convert(document, type=WaitingPod)


def scheduled(status, reason="Unschedulable", message="0/3 nodes are available"):
    return {"type": "PodScheduled", "status": status, "reason": reason, "message": message}


@pytest.mark.parametrize(
    ("conditions", "is_unscheduled", "refusal", "has_failed"),
    [
        ([], False, "", False),
        ([READY], False, "", False),
        ([scheduled("True")], False, "", False),
        ([scheduled("Unknown", "SchedulerError")], False, "", False),
        ([scheduled("False")], True, "0/3 nodes are available", False),
        ([READY, scheduled("False", message="")], True, "", False),
        ([READY, scheduled("False", "SchedulerError", "binding rejected")], True, "binding rejected", True),
    ],
)
def test_an_attempt_has_ended_without_a_node_if_the_pod_is_not_scheduled(
    conditions, is_unscheduled, refusal, has_failed
):
    pod = with_conditions(*conditions)
    assert waiting_pods.is_unscheduled(pod) is is_unscheduled
    assert waiting_pods.refusal(pod) == refusal
    assert waiting_pods.has_failed(pod) is has_failed


def test_a_deleted_pod_is_leaving():
    pod = factories.waiting_pod("web")
    assert not waiting_pods.is_leaving(pod)
    metadata = msgspec.structs.replace(pod.metadata, deletion_timestamp=factories.moment(0))
    assert waiting_pods.is_leaving(msgspec.structs.replace(pod, metadata=metadata))


class Followed:
    """Waiting pods that record their calls."""

    def __init__(self):
        self.outcomes, self.gone = [], []
        self.pods = WaitingPods(lambda _pod, is_new: self.outcomes.append(is_new), self.gone.append)

    def show(self, **fields):
        """Return whether the pod shows the end of another attempt."""
        self.pods.changed(factories.waiting_pod("web", **fields))
        return self.outcomes[-1]


@pytest.mark.parametrize(
    ("before", "after", "is_new"),
    [
        ({}, {}, False),
        ({}, {"scheduled": "False"}, True),
        ({"scheduled": "False"}, {"scheduled": "False"}, False),
        ({"scheduled": "False"}, {"scheduled": "False", "message": "another"}, True),
        ({"scheduled": "False"}, {"scheduled": "False", "reason": "SchedulerError"}, True),
        ({"scheduled": "False"}, {"scheduled": "True"}, True),
        ({}, {"nominated": "n1"}, False),
        ({"nominated": "n1"}, {"nominated": "n2"}, False),
        ({"nominated": "n1"}, {}, True),
        ({"scheduled": "False", "nominated": "n1"}, {"scheduled": "False"}, True),
        ({"nominated": "n1"}, {"scheduled": "False", "nominated": "n1"}, True),
    ],
)
def test_another_outcome_or_a_nomination_that_is_gone_ends_another_attempt(before, after, is_new):
    followed = Followed()
    assert followed.show(**before) is True
    assert followed.show(**after) is is_new
    assert followed.show(**after) is False
    assert followed.gone == []


def test_a_pod_leaves_once_and_waits_again_as_a_new_one():
    followed = Followed()
    followed.pods.gone("default", "web")
    assert (followed.gone, len(followed.pods)) == ([], 0)
    followed.show()
    followed.pods.gone("other", "web")
    followed.pods.gone("default", "other")
    assert (followed.gone, len(followed.pods)) == ([], 1)
    followed.pods.gone("default", "web")
    followed.pods.gone("default", "web")
    assert (followed.gone, len(followed.pods)) == (["uid-web"], 0)
    assert followed.show() is True


def test_a_new_list_that_has_all_pods_ends_none():
    followed = Followed()
    followed.show()
    assert list(followed.pods.keep({("default", "web")})) == []
    assert (followed.gone, len(followed.pods)) == ([], 1)
