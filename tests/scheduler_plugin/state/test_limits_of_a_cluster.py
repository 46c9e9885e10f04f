"""Bounds of the cluster state: schedulers, pods that were bound without a filter call, and assumed pods."""

import msgspec
import pytest

from api_types.kubernetes import pods
from scheduler_plugin.state import blindness
from scheduler_plugin.state import cluster as cluster_state
from tests.scheduler_plugin import factories
from tests.scheduler_plugin.factories import NOW

TTL = 120
MID = {"kubernetes.io/mid-cpu": "1000", "kubernetes.io/mid-memory": "1Gi"}


class Scene:
    """A cluster, its monotonic clock, and a namespace with a quota."""

    def __init__(self):
        self.clock = factories.Clock()
        self.clock.seconds = 10_000.0
        self.parts = factories.parts(monotonic=self.clock, assumed_ttl_seconds=TTL)
        self.cluster = self.parts.cluster
        self.parts.vectors.mid_quotas.namespace_changed("limited", '{"cpu": "100"}')
        for name in ("n1", "n2"):
            self.cluster.node_changed(factories.node(name))

    def assume(self, name, namespace="limited", requests=MID, **more):
        pod = factories.pod(name, namespace=namespace, requests=requests, priority=7500)
        return self.cluster.assume_pod(pod, "n1", NOW, **more)

    def assumed(self):
        return [key.partition("/")[2] for key in self.cluster.entries["n1"].load.pods]

    def expire(self, seconds, silent_seconds=0.0):
        self.clock.seconds += seconds
        return self.cluster.expire_assumed(silent_seconds)


@pytest.fixture
def scene():
    return Scene()


def bound(scheduler, ago=0.0, name="p"):
    document = factories.pod_document(name, node="n1", scheduled=-ago)
    document["spec"]["schedulerName"] = scheduler
    return msgspec.convert(document, type=pods.Pod)


@pytest.mark.parametrize(("number", "is_counted"), [(0, 1), (63, 1), (64, 0)])
def test_up_to_64_schedulers_are_known(scene, number, is_counted):
    for index in range(65):
        scene.cluster.serve_scheduler(f"s{index}")
    scene.cluster.pod_changed(bound(f"s{number}"), NOW)
    assert scene.cluster.unfiltered_pods == is_counted


@pytest.mark.parametrize(("ago", "is_counted"), [(-1, 0), (0, 1), (29, 1), (30, 0), (1000, 0)])
def test_a_pod_that_was_bound_in_the_last_30_seconds_without_a_filter_call_is_counted(scene, ago, is_counted):
    scene.cluster.serve_scheduler("s")
    scene.cluster.pod_changed(bound("s", ago), NOW)
    scene.cluster.pod_changed(bound("s", ago), NOW)
    assert scene.cluster.unfiltered_pods == is_counted


def test_a_pod_of_another_scheduler_or_one_that_was_assumed_is_not_counted(scene):
    scene.cluster.serve_scheduler("s")
    scene.cluster.pod_changed(bound("another"), NOW)
    scene.cluster.assume_pod(bound("s", name="q"), "n1", NOW)
    scene.cluster.pod_changed(bound("s", name="q"), NOW)
    assert scene.cluster.unfiltered_pods == 0


@pytest.mark.parametrize(("seconds", "expired"), [(TTL - 1, 0), (TTL, 1)])
def test_an_assumed_pod_expires_after_its_time(scene, seconds, expired):
    assert scene.assume("p", "free")
    assert scene.expire(seconds) == expired
    assert scene.assumed() == ["p"] * (1 - expired)
    assert scene.cluster.counts()["unconfirmed_pods"] == 1 - expired


def test_a_time_of_its_own_counts_for_a_reserved_pod_and_it_does_not_stay_beyond_it(scene):
    scene.assume("p", ttl_seconds=10)
    assert scene.expire(9, silent_seconds=9) == 0
    assert scene.expire(1, silent_seconds=10) == 1


def test_a_pod_that_holds_a_quota_stays_while_the_watch_may_not_have_shown_it(scene):
    scene.assume("p")
    scene.assume("q", "free")
    scene.assume("no-mid", requests={"cpu": "1"})
    assert scene.expire(TTL, silent_seconds=TTL + 1) == 2
    assert scene.assumed() == ["p"]
    assert scene.expire(0, silent_seconds=TTL) in (0, 1)


def test_after_a_silence_the_watch_has_30_seconds_to_catch_up(scene):
    scene.assume("p")
    silent = blindness.SILENT_SECONDS + 1
    assert scene.expire(TTL, silent_seconds=silent) == 0
    assert scene.expire(29.5) == 0
    assert scene.expire(0.5) == 1


def test_a_watch_that_was_quiet_for_less_needs_no_time(scene):
    scene.assume("p")
    scene.clock.seconds += TTL - blindness.SILENT_SECONDS
    assert scene.expire(blindness.SILENT_SECONDS, silent_seconds=blindness.SILENT_SECONDS) == 1


def test_of_too_many_pods_that_stay_the_oldest_expire(scene, monkeypatch):
    monkeypatch.setattr(cluster_state, "_MOST_KEPT", 2)
    for name in ("a", "b", "c", "d"):
        scene.assume(name)
    assert scene.expire(TTL, silent_seconds=TTL + 1) == 2
    assert scene.assumed() == ["c", "d"]


def test_a_confirmed_pod_is_not_assumed_again_and_a_pod_without_a_node_never(scene):
    confirmed = factories.pod("p", node="n1", phase="Running")
    scene.cluster.pod_changed(confirmed, NOW)
    assert not scene.cluster.assume_pod(confirmed, "n2", NOW)
    assert not scene.cluster.assume_pod(factories.pod("q"), "", NOW)
    assert not scene.cluster.assume_pod(factories.pod("r", phase="Succeeded"), "n1", NOW)
    assert scene.assumed() == ["p"]


def test_late_events_of_the_last_pod_of_a_name_do_not_replace_an_assumed_one(scene):
    last, following = (factories.pod("db-0", uid=uid, node="n1", phase="Running") for uid in ("last", "following"))
    scene.cluster.pod_changed(last, NOW)
    scene.cluster.assume_pod(following, "n2", NOW)
    scene.cluster.pod_changed(last, NOW)
    assert scene.cluster.find_pod(following)[0] == "n2"
    scene.cluster.pod_deleted("default", "db-0", "last")
    assert scene.cluster.find_pod(following)[0] == "n2"
    assert scene.cluster.find_pod(last) is None
    scene.cluster.pod_deleted("default", "db-0")
    assert scene.cluster.counts()["pods"] == 0


@pytest.mark.parametrize(
    ("uids", "namespace", "sums"),
    [
        (["uid-a", "uid-b"], "", (2000, 2 * 2**30)),
        (["uid-a", "uid-b"], "limited", (1000, 2**30)),
        (["uid-a"], "free", (0, 0)),
        ([], "", (0, 0)),
    ],
)
def test_the_mid_requests_of_named_pods_are_summed(scene, uids, namespace, sums):
    scene.assume("a")
    scene.assume("b", "free")
    assert scene.cluster.mid_requests("n1", uids, namespace) == sums
    assert scene.cluster.mid_requests("nowhere", uids, namespace) == (0, 0)


def test_an_entry_is_dropped_with_its_last_part_and_its_row_is_used_again(scene):
    row = scene.cluster.entries["n2"].row
    scene.cluster.metric_changed(factories.metric("n2", usage={"cpu": "1"}))
    scene.cluster.node_deleted("n2")
    assert "n2" in scene.cluster.entries
    assert scene.cluster.counts()["nodes"] == 1
    scene.cluster.metric_deleted("n2")
    assert "n2" not in scene.cluster.entries
    assert scene.cluster.counts()["node_metrics"] == 0
    scene.cluster.node_changed(factories.node("n3"))
    assert scene.cluster.entries["n3"].row == row
