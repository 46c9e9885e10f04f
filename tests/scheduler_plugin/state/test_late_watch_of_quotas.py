"""An assumed pod with a part of a Mid quota outlives its time while the watch may not have shown it."""

import pytest

from scheduler_plugin.state import blindness
from scheduler_plugin.state import cluster as state
from tests.scheduler_plugin import factories
from tests.scheduler_plugin.factories import NOW

MID = {"kubernetes.io/mid-cpu": "1000", "kubernetes.io/mid-memory": "1Gi"}
TTL_SECONDS = 60
CATCH_UP_SECONDS = 30


@pytest.fixture
def clock():
    return factories.Clock()


@pytest.fixture
def cluster(clock):
    made = factories.parts(monotonic=clock, assumed_ttl_seconds=TTL_SECONDS).cluster
    made.node_changed(factories.node("n1"))
    made.vectors.mid_quotas.namespace_changed("shop", '{"cpu": "20"}')
    return made


def assume(cluster, name="batch", namespace="shop"):
    assert cluster.assume_pod(factories.pod(name, namespace=namespace, requests=MID), "n1", NOW)


def test_a_pod_expires_once_a_silent_watch_had_time_to_catch_up(cluster, clock):
    assume(cluster)
    clock.seconds = 1_000
    assert cluster.expire_assumed(blindness.SILENT_SECONDS + 1) == 0
    clock.seconds = 1_000 + CATCH_UP_SECONDS - 1
    assert cluster.expire_assumed() == 0
    clock.seconds = 1_000 + CATCH_UP_SECONDS
    assert cluster.expire_assumed() == 1


def test_a_watch_that_is_as_quiet_as_a_quiet_one_may_be_is_not_silent(cluster, clock):
    assume(cluster)
    clock.seconds = 1_000
    assert cluster.expire_assumed(blindness.SILENT_SECONDS) == 1


def test_a_pod_that_was_bound_after_the_last_event_does_not_expire(cluster, clock):
    clock.seconds = 1_000
    assume(cluster)
    clock.seconds = 1_000 + TTL_SECONDS
    assert cluster.expire_assumed(TTL_SECONDS + 1) == 0
    assert cluster.expire_assumed(TTL_SECONDS) == 1


def test_a_pod_without_a_quota_expires_also_under_a_silent_watch(cluster, clock):
    assume(cluster, namespace="lab")
    clock.seconds = 1_000
    assert cluster.expire_assumed(blindness.SILENT_SECONDS + 1) == 1


def test_of_too_many_pods_that_would_stay_the_oldest_expire(cluster, clock, monkeypatch):
    monkeypatch.setattr(state, "_MOST_KEPT", 2)
    for name in ("first", "second", "third"):
        assume(cluster, name)
    clock.seconds = 1_000
    assert cluster.expire_assumed(blindness.SILENT_SECONDS + 1) == 1
    assert [pod.key for pod in cluster.entries["n1"].load.pods.values()] == ["shop/second", "shop/third"]
    assert cluster.expire_assumed(blindness.SILENT_SECONDS + 1) == 0
