"""Which nodes, reports and pods a cluster keeps, and what it counts of them."""

import pytest

from scheduler_plugin.state import pod_info
from tests.scheduler_plugin import factories
from tests.scheduler_plugin.factories import NOW

MID = {"kubernetes.io/mid-cpu": "4k", "kubernetes.io/mid-memory": "5"}


@pytest.fixture
def clock():
    return factories.Clock()


@pytest.fixture
def cluster(clock):
    return factories.parts(monotonic=clock).cluster


def bound(name, node="n1", **more):
    return factories.pod(name, node=node, phase="Running", **more)


def counted(cluster):
    return {key: entry.name for entry in cluster.entries.values() for key in entry.load.pods}


def test_reports_are_counted_once_a_node(cluster):
    for name in ("n1", "n2", "n1"):
        cluster.metric_changed(factories.metric(name, usage={"cpu": "1", "memory": "1Gi"}))
    assert (cluster.counts()["node_metrics"], set(cluster.reports())) == (2, {"n1", "n2"})
    cluster.node_changed(factories.node("n3"))
    for name in ("n1", "n3", "unknown"):
        cluster.metric_deleted(name)
        cluster.metric_deleted(name)
    assert (cluster.counts()["node_metrics"], set(cluster.reports())) == (1, {"n2"})


def test_what_a_list_of_nodes_lacks_is_dropped_a_node_with_each_step(cluster):
    for name in ("n1", "n2", "n3"):
        cluster.node_changed(factories.node(name))
    cluster.pod_changed(bound("web", "n4"), NOW)
    steps = sum(1 for _ in cluster.keep_nodes({"n2"}))
    assert steps == 2
    assert set(cluster.entries) == {"n2", "n4"}


def test_what_a_list_of_reports_lacks_is_dropped_a_report_with_each_step(cluster):
    for name in ("n1", "n2", "n3"):
        cluster.metric_changed(factories.metric(name, usage={"cpu": "1", "memory": "1Gi"}))
    cluster.node_changed(factories.node("n4"))
    assert sum(1 for _ in cluster.keep_metrics({"n2"})) == 2
    assert set(cluster.entries) == {"n2", "n4"}
    assert cluster.counts()["node_metrics"] == 1


def test_a_deleted_node_keeps_its_pods_without_its_object(cluster):
    cluster.node_changed(factories.node("n1"))
    cluster.pod_changed(bound("web"), NOW)
    cluster.node_deleted("n1")
    cluster.node_deleted("unknown")
    entry = cluster.entries["n1"]
    assert (entry.node, entry.allocatable, counted(cluster)) == (None, {}, {"default/web": "n1"})
    cluster.pod_deleted("default", "web")
    assert cluster.entries == {}


@pytest.mark.parametrize(("seconds", "count"), [(-1, 0), (0, 1), (29, 1), (30, 0)])
def test_a_pod_that_a_served_scheduler_bound_just_now_without_a_call_is_counted(cluster, seconds, count):
    cluster.pod_changed(bound("early", scheduled=-seconds), NOW)
    assert cluster.unfiltered_pods == 0
    cluster.serve_scheduler(bound("any").spec.scheduler_name)
    cluster.pod_changed(bound("web", scheduled=-seconds), NOW)
    cluster.pod_changed(bound("web", scheduled=-seconds), NOW)
    assert cluster.unfiltered_pods == count
    cluster.assume_pod(bound("called"), "n1", NOW)
    cluster.pod_changed(bound("called", scheduled=-seconds), NOW)
    cluster.pod_changed(bound("without-a-time"), NOW)
    assert cluster.unfiltered_pods == count


def test_mid_requests_are_those_of_the_named_pods_of_the_node_and_namespace(cluster):
    for name, namespace, node in (("a", "shop", "n1"), ("b", "lab", "n1"), ("c", "shop", "n2"), ("d", "shop", "n1")):
        cluster.pod_changed(bound(name, node, namespace=namespace, requests=MID), NOW)
    uids = {"uid-a", "uid-b", "uid-c"}
    assert cluster.mid_requests("n1", uids) == (8_000, 10)
    assert cluster.mid_requests("n1", uids, "shop") == (4_000, 5)
    assert cluster.mid_requests("unknown", uids) == (0, 0)


def test_what_a_list_of_pods_lacks_is_dropped_except_assumed_pods(cluster):
    for name in ("kept", "gone"):
        cluster.pod_changed(bound(name), NOW)
    cluster.assume_pod(factories.pod("assumed"), "n2", NOW)
    for _ in cluster.keep_pods({pod_info.pod_digest("default", "kept")}):
        pass
    assert counted(cluster) == {"default/kept": "n1", "default/assumed": "n2"}
    assert (cluster.counts()["pods"], cluster.counts()["unconfirmed_pods"]) == (2, 1)


def test_a_pod_is_assumed_unless_the_watch_shows_it_or_it_has_no_node(cluster):
    assert cluster.assume_pod(factories.pod("web"), "n1", NOW)
    assert cluster.assume_pod(factories.pod("web"), "n2", NOW)
    assert not cluster.assume_pod(factories.pod("other"), "", NOW)
    assert not cluster.assume_pod(factories.pod("ended", phase="Succeeded"), "n1", NOW)
    assert counted(cluster) == {"default/web": "n2"}
    assert not cluster.shows_pod("default", "web")
    cluster.pod_changed(bound("web"), NOW)
    assert cluster.shows_pod("default", "web")
    assert not cluster.assume_pod(factories.pod("web"), "n2", NOW)
    assert counted(cluster) == {"default/web": "n1"}
    assert cluster.counts()["unconfirmed_pods"] == 0


def test_only_an_assumed_pod_of_that_uid_is_forgotten(cluster):
    cluster.assume_pod(factories.pod("web"), "n1", NOW)
    cluster.forget_assumed(factories.pod("web", uid="another"))
    assert counted(cluster) == {"default/web": "n1"}
    cluster.forget_assumed(factories.pod("web"))
    assert counted(cluster) == {}
    cluster.pod_changed(bound("web"), NOW)
    cluster.forget_assumed(factories.pod("web"))
    assert counted(cluster) == {"default/web": "n1"}


def test_a_deletion_counts_for_the_pod_of_that_uid_or_without_one_for_any(cluster):
    cluster.pod_changed(bound("web"), NOW)
    cluster.pod_deleted("default", "web", "another")
    cluster.pod_deleted("default", "unknown")
    assert counted(cluster) == {"default/web": "n1"}
    cluster.pod_deleted("default", "web", "uid-web")
    assert counted(cluster) == {}


def test_an_event_of_the_pod_whose_place_an_assumed_one_took_changes_nothing(cluster):
    cluster.pod_changed(bound("db-0", "n1", uid="first"), NOW)
    cluster.assume_pod(factories.pod("db-0", uid="second"), "n2", NOW)
    cluster.pod_changed(bound("db-0", "n1", uid="first"), NOW)
    assert counted(cluster) == {"default/db-0": "n2"}
    cluster.assume_pod(factories.pod("db-0", uid="second"), "n3", NOW)
    cluster.pod_changed(bound("db-0", "n1", uid="first"), NOW)
    assert counted(cluster) == {"default/db-0": "n3"}
    cluster.pod_changed(bound("db-0", "n2", uid="second"), NOW)
    assert counted(cluster) == {"default/db-0": "n2"}
    cluster.pod_changed(bound("db-0", "n1", uid="first"), NOW)
    assert counted(cluster) == {"default/db-0": "n1"}


def test_assumed_pods_expire_at_their_time_and_their_number_is_returned(cluster, clock):
    cluster.assume_pod(factories.pod("short"), "n1", NOW, ttl_seconds=5)
    cluster.assume_pod(factories.pod("long"), "n1", NOW)
    clock.seconds = 4.5
    assert cluster.expire_assumed() == 0
    clock.seconds = 5.0
    assert cluster.expire_assumed() == 1
    assert counted(cluster) == {"default/long": "n1"}
    clock.seconds = 120.0
    assert cluster.expire_assumed() == 1
    assert counted(cluster) == {}


def test_a_pod_is_found_by_its_uid(cluster):
    cluster.pod_changed(bound("web"), NOW)
    node, record = cluster.find_pod(factories.pod("web"))
    assert (node, record.uid, record.observed) == ("n1", "uid-web", True)
    assert cluster.find_pod(factories.pod("web", uid="another")) is None
    assert cluster.find_pod(factories.pod("unknown")) is None
