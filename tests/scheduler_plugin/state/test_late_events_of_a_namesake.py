"""Events of the last pod of a StatefulSet that arrive while its successor is scheduled, also more than once."""

import pytest

from tests.scheduler_plugin import factories
from tests.scheduler_plugin.factories import NOW

LAST, NEXT = factories.pod("db-0", uid="last", node="a", phase="Running"), factories.pod("db-0", uid="next")


@pytest.fixture
def cluster():
    cluster = factories.parts().cluster
    cluster.pod_changed(LAST, NOW)
    cluster.assume_pod(NEXT, "b", NOW)
    return cluster


def counted(cluster):
    return [(entry.name, pod.uid) for entry in cluster.entries.values() for pod in entry.load.pods.values()]


def retry(cluster):
    cluster.forget_assumed(NEXT)
    assert counted(cluster) == []
    cluster.assume_pod(NEXT, "c", NOW)


def test_a_retry_of_the_successor_keeps_late_events_of_the_last_pod_out(cluster):
    for _ in range(2):
        retry(cluster)
        cluster.pod_changed(LAST, NOW)
        assert counted(cluster) == [("c", "next")]
    cluster.pod_deleted("default", "db-0", "last")
    assert counted(cluster) == [("c", "next")]


@pytest.mark.parametrize("uid", ["last", "another"])
def test_only_its_own_deletion_is_the_last_event_of_a_pod(cluster, uid):
    cluster.pod_deleted("default", "db-0", uid)
    cluster.pod_changed(LAST, NOW)
    assert counted(cluster) == ([("a", "last")] if uid == "last" else [("b", "next")])


def test_a_new_list_ends_what_is_known_of_the_last_pod_of_a_successor_that_waits(cluster):
    cluster.forget_assumed(NEXT)
    list(cluster.keep_pods(()))
    cluster.assume_pod(NEXT, "c", NOW)
    cluster.pod_changed(LAST, NOW)
    assert counted(cluster) == [("a", "last")]


def test_a_new_list_keeps_late_events_out_while_the_successor_is_assumed(cluster):
    list(cluster.keep_pods(()))
    cluster.pod_changed(LAST, NOW)
    assert counted(cluster) == [("b", "next")]
