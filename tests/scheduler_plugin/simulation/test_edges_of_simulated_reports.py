"""Simulated reports and recordings at the edges of their input."""

import json

import pytest

from scheduler_plugin.simulation import recorded_cluster
from scheduler_plugin.simulation.recorded_cluster import ANNOTATION, BadRecording
from tests.scheduler_plugin import factories
from tests.scheduler_plugin.factories import pod_document
from tests.scheduler_plugin.simulation.test_node_agents import agents, pod, raw_reports, usage_of
from tests.scheduler_plugin.simulation.test_recorded_cluster import by_name, report, scenario

__all__ = ["raw_reports"]


@pytest.mark.usefixtures("raw_reports")
def test_a_window_is_reported_once_exactly_half_of_it_is_covered():
    one = agents(recorded_cluster.SimulatedNode(factories.node("a")))
    one.place(pod("p", 100.0), 0, at_seconds=0.0)
    (found,) = one.due(300.0)
    windows = [each["duration"] for each in found["status"]["nodeMetric"]["aggregatedNodeUsages"]]
    assert windows == ["5m0s", "10m0s"]
    assert usage_of(found, "avg", "10m0s") == "100m"


def test_pods_keep_their_uid_and_get_one_of_their_own_without():
    known, first, second = pod_document("known"), pod_document("first"), pod_document("second")
    known["metadata"]["uid"] = "u-1"
    del first["metadata"]["uid"], second["metadata"]["uid"]
    made = by_name(scenario([known, first, second]))
    uids = {name: each.pod.metadata.uid for name, each in made.items()}
    assert uids["known"] == "u-1"
    assert len({"", *uids.values()}) == 4


def test_a_resource_that_a_report_lacks_is_not_used():
    item = {"namespace": "default", "name": "a", "podUsage": {"resources": {"cpu": "250m"}}}
    made = scenario([pod_document("a", node="n1")], metrics=[report("n1", "1", item)])
    assert by_name(made)["a"].usage.tolist() == [[250], [0]]


@pytest.mark.parametrize("usage", [{"cpu": "-1", "memory": "1Gi"}, {"cpu": "1", "memory": "-1"}])
def test_a_negative_usage_is_refused(usage):
    document = pod_document("a", annotations={ANNOTATION: json.dumps(usage)})
    with pytest.raises(BadRecording, match="pod default/a"):
        scenario([document])
