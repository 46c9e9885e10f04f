"""A new list after a gap of a watch: what it no longer contains is dropped, slice by slice."""

import pytest

from scheduler_plugin.state import node_report, pod_info
from tests.scheduler_plugin import factories
from tests.scheduler_plugin.factories import NOW


@pytest.fixture
def cluster():
    made = factories.parts().cluster
    for name in ("a", "b", "c"):
        made.node_changed(factories.node(name))
        made.metric_changed(factories.metric(name, usage={"cpu": "1"}))
        made.pod_changed(factories.pod(f"on-{name}", node=name, phase="Running"), NOW)
    return made


def test_nodes_that_are_gone_are_dropped_one_with_each_step_and_their_pods_stay(cluster):
    steps = cluster.keep_nodes({"b"})
    next(steps)
    assert set(cluster.vectors.rows) == {"b", "c"}
    assert len(list(steps)) == 1
    assert set(cluster.vectors.rows) == {"b"}
    assert cluster.counts()["pods"] == 3
    assert list(cluster.keep_nodes({"b"})) == []


def test_reports_that_are_gone_are_dropped_and_those_of_other_nodes_stay(cluster):
    cluster.node_changed(factories.node("silent"))
    assert len(list(cluster.keep_metrics({"b"}))) == 2
    assert set(cluster.reports()) == {"b"}
    assert cluster.counts()["node_metrics"] == 1
    assert set(cluster.vectors.rows) == {"a", "b", "c", "silent"}


def test_pods_that_are_gone_are_dropped_and_assumed_ones_stay(cluster):
    cluster.assume_pod(factories.pod("assumed"), "a", NOW)
    list(cluster.keep_pods({pod_info.pod_digest("default", "on-b")}))
    shown = {pod.key for entry in cluster.entries.values() for pod in entry.load.pods.values()}
    assert shown == {"default/on-b", "default/assumed"}


def test_a_report_is_counted_once_however_often_it_comes(cluster):
    cluster.metric_changed(factories.metric("a", usage={"cpu": "2"}))
    assert cluster.counts()["node_metrics"] == 3
    cluster.metric_deleted("a")
    cluster.metric_deleted("a")
    assert cluster.counts()["node_metrics"] == 2


def test_a_table_has_the_vectors_of_its_keys():
    made = node_report.table({"a": (1, 2, 3), "b": (4, 5, 6)}, 3)
    assert dict(made) == {"a": (1, 2, 3), "b": (4, 5, 6)}
    assert (made.find("a"), made.find("b"), made.find("c")) == ((1, 2, 3), (4, 5, 6), None)
    assert made.own_key("b") == "b"
    assert made.own_key("c") == "c"
    assert (len(made), list(made)) == (2, ["a", "b"])
