"""What a cluster no longer knows once a pod, or a report, is gone."""

import pytest

from scheduler_plugin.state.node_load import NodeLoad
from tests.scheduler_plugin import factories
from tests.scheduler_plugin.factories import NOW
from tests.scheduler_plugin.state.test_node_load import assigned, report


@pytest.fixture
def clock():
    return factories.Clock()


@pytest.fixture
def cluster(clock):
    return factories.parts(monotonic=clock, assumed_ttl_seconds=120).cluster


def last():
    return factories.pod("db-0", uid="last", node="a", phase="Running")


def successor():
    return factories.pod("db-0", uid="next")


def counted(cluster):
    return [(entry.name, pod.uid) for entry in cluster.entries.values() for pod in entry.load.pods.values()]


def test_after_an_assumed_successor_expired_the_watch_decides_on_the_last_pod_again(cluster, clock):
    cluster.pod_changed(last(), NOW)
    cluster.assume_pod(successor(), "b", NOW)
    clock.seconds = 120
    assert cluster.expire_assumed() == 1
    cluster.assume_pod(successor(), "b", NOW)
    cluster.pod_changed(last(), NOW)
    assert counted(cluster) == [("a", "last")]


def test_after_an_assumed_successor_is_deleted_the_watch_decides_on_the_last_pod_again(cluster):
    cluster.pod_changed(last(), NOW)
    cluster.assume_pod(successor(), "b", NOW)
    cluster.pod_deleted("default", "db-0", "next")
    assert counted(cluster) == []
    cluster.assume_pod(factories.pod("db-0", uid="third"), "b", NOW)
    cluster.pod_changed(last(), NOW)
    assert counted(cluster) == [("a", "last")]


def test_after_a_confirmed_successor_a_third_pod_takes_its_place_alone(cluster):
    cluster.pod_changed(last(), NOW)
    cluster.assume_pod(successor(), "b", NOW)
    cluster.pod_changed(factories.pod("db-0", uid="next", node="b", phase="Running"), NOW)
    cluster.assume_pod(factories.pod("db-0", uid="third"), "c", NOW)
    cluster.pod_changed(factories.pod("db-0", uid="next", node="b", phase="Running"), NOW)
    assert counted(cluster) == [("c", "third")]
    cluster.pod_changed(last(), NOW)
    assert counted(cluster) == [("a", "last")]


@pytest.mark.parametrize(("pods", "time"), [([], None), (["a"], 5.0)])
def test_the_time_of_a_report_outlives_it_only_while_pods_are_there(pods, time):
    load = NodeLoad(2, system_in_prod=False)
    for name in pods:
        load.assign(assigned(name))
    load.set_report(report(updated=5.0))
    load.drop_report()
    load.set_report(report(updated=None))
    assert load.update_time == time


def test_without_its_report_a_load_has_the_estimates_alone():
    load = NodeLoad(2, system_in_prod=True)
    load.assign(assigned("a", (100, 7)))
    load.set_report(report({"a": (40, 50)}, ["a"], usage=(5000, 500), system=(70, 7)))
    assert load.prod_usage == [110, 57]
    load.drop_report()
    assert (load.plain(), load.prod(), load.node_delta) == ((100, 7), (0, 0), [0, 0])
