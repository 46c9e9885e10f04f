"""Tests of the conversion of a recording: running and arriving pods, usage, and reporting nodes."""

import json
import math

import msgspec
import numpy as np
import pytest

from scheduler_plugin.simulation import recorded_cluster
from scheduler_plugin.simulation.recorded_cluster import ANNOTATION, BadRecording, Play, Recording
from tests.scheduler_plugin import factories
from tests.scheduler_plugin.factories import pod_document


def wire(item):
    return json.loads(msgspec.json.encode(item))


def node(name):
    return wire(factories.node(name, cpu="10"))


def report(name, cpu, *pods_metric, updated=0):
    return {
        "metadata": {"name": name},
        "status": {
            "updateTime": factories.moment(updated),
            "nodeMetric": {"nodeUsage": {"resources": {"cpu": cpu, "memory": "1Gi"}}},
            "podsMetric": list(pods_metric),
        },
    }


def created(document, at):
    document["metadata"]["creationTimestamp"] = factories.moment(at)
    return document


def scenario(pods, nodes=("n1",), metrics=None, **play):
    recording = Recording(pods, [node(name) for name in nodes], metrics)
    return recorded_cluster.to_scenario(recording, Play(**play))


def by_name(made):
    return {each.pod.metadata.name: each for each in made.pods}


def test_bound_pods_run_and_the_others_arrive_in_order_of_creation():
    made = scenario(
        [
            created(pod_document("late"), 9),
            pod_document("old", node="n1", phase="Running"),
            created(pod_document("early"), 3),
            pod_document("done", node="n1", phase="Succeeded"),
        ],
        arrival_interval_seconds=5.0,
    )
    assert {name: (each.pod.spec.node_name, each.at_seconds) for name, each in by_name(made).items()} == {
        "old": ("n1", 0),
        "early": ("", 0),
        "late": ("", 5),
    }


@pytest.mark.parametrize(("hours", "step_seconds", "steps"), [(1.0, 1.0, 3600), (24.0, 60.0, 1440), (0.001, 60.0, 1)])
def test_a_play_has_the_steps_of_its_hours(hours, step_seconds, steps):
    assert scenario([], hours=hours, step_seconds=step_seconds).steps == steps


def test_everything_places_all_pods_again_except_pinned_ones():
    made = scenario(
        [
            pod_document("web", node="n1", phase="Running", scheduled=-60),
            pod_document("agent", node="n1", owner_kind="DaemonSet", phase="Running"),
            pod_document("agent-to-come", owner_kind="DaemonSet"),
        ],
        everything=True,
    )
    assert {name: each.pod.spec.node_name for name, each in by_name(made).items()} == {"web": "", "agent": "n1"}
    assert by_name(made)["web"].pod.status.conditions is None


def test_usage_comes_from_annotation_file_report_or_requests_in_that_order():
    hints = {ANNOTATION: json.dumps({"cpu": "3", "afterSeconds": 40, "lifetimeSeconds": 60})}
    known = {"cpu": "1", "memory": "4Gi"}
    made = scenario(
        [
            pod_document("hinted", annotations=hints, requests=known),
            pod_document("filed", requests=known),
            pod_document("reported", node="n1", requests=known),
            pod_document("unknown", requests=known),
            pod_document("mid", requests={"kubernetes.io/mid-cpu": "500", "kubernetes.io/mid-memory": "1Ki"}),
        ],
        metrics=[report("n1", "2", factories.reported("reported", "250m", "1Mi"))],
        usage={"default/filed": np.array([[1.0, 2.0], [3.0, 4.0]])},
        usage_percent=25.0,
    )
    found = by_name(made)
    assert {name: each.usage.tolist() for name, each in found.items()} == {
        "hinted": [[3000], [0]],
        "filed": [[1, 2], [3, 4]],
        "reported": [[250], [1024**2]],
        "unknown": [[250], [1024**3]],
        "mid": [[125], [256]],
    }
    assert (found["hinted"].at_seconds, found["hinted"].lifetime_seconds) == (40, 60)
    assert found["filed"].lifetime_seconds == math.inf


def test_other_usage_of_a_node_stays_and_is_never_negative():
    metrics = [
        report("n1", "2", factories.reported("a", "500m", "0")),
        report("n2", "1", factories.reported("b", "1500m", "0")),
    ]
    running = [pod_document("a", node="n1"), pod_document("b", node="n2")]
    made = scenario(running, nodes=("n1", "n2"), metrics=metrics)
    assert [each.other_usage for each in made.nodes] == [(1500, 1024**3), (0, 1024**3)]
    assert made.began_at == factories.NOW


def test_a_silent_agent_stays_silent():
    metrics = [report("n1", "2"), report("n2", "2", updated=-180), report("n3", "2", updated=-179)]
    made = scenario([], nodes=("n1", "n2", "n3", "n4"), metrics=metrics)
    assert [each.agent_reports for each in made.nodes] == [True, False, True, False]
    assert [each.agent_reports for each in scenario([]).nodes] == [True]


@pytest.mark.parametrize(
    ("pod", "wrong"),
    [
        (pod_document("p", annotations={ANNOTATION: '{"cpus": 1}'}), "pod default/p: annotation .* unknown field"),
        (pod_document("p", annotations={ANNOTATION: '{"cpu": "much"}'}), "pod default/p: .* not a quantity"),
        (pod_document("p", requests={"cpu": "much"}), "pod default/p: .*much"),
        ({"metadata": {"name": "p"}, "spec": []}, "Pod p: "),
    ],
)
def test_names_an_unusable_object(pod, wrong):
    with pytest.raises(BadRecording, match=wrong):
        scenario([pod])


@pytest.mark.parametrize("status", [{"podsMetric": 5}, {"updateTime": 5}, {"nodeMetric": "x"}])
def test_names_an_unreadable_report(status):
    with pytest.raises(BadRecording, match="NodeMetric n1: Expected"):
        scenario([], metrics=[{"metadata": {"name": "n1"}, "status": status}])


def test_rejects_a_cluster_without_nodes():
    with pytest.raises(BadRecording, match="no nodes"):
        scenario([], nodes=())


def test_the_defaults_play_a_day_in_minutes_and_half_of_the_requests():
    made = scenario([pod_document("a", requests={"cpu": "1"}), pod_document("b")])
    assert (made.steps, made.step_seconds) == (1440, 60.0)
    assert [each.at_seconds for each in made.pods] == [0.0, 1.0]
    assert by_name(made)["a"].usage.tolist() == [[500], [0]]


def test_a_simulation_begins_with_the_newest_report_that_has_a_time():
    timeless = {"metadata": {"name": "n3"}, "status": {}}
    metrics = [report("n1", "2", updated=30), report("n2", "2", updated=60), timeless]
    assert scenario([], metrics=metrics).began_at == factories.NOW + 60


def test_the_report_of_a_live_agent_is_replaced_where_everything_is_placed_again():
    metrics = [report("live", "2"), report("silent", "2", updated=-180)]
    for everything, kept in ((False, ["live", "silent", None]), (True, [None, "silent", None])):
        made = scenario([], nodes=("live", "silent", "bare"), metrics=metrics, everything=everything)
        assert [each.recorded and each.recorded["metadata"]["name"] for each in made.nodes] == kept


def test_an_amount_that_an_annotation_leaves_out_is_0():
    hinted = pod_document("p", annotations={ANNOTATION: '{"memory": "1Gi"}'}, requests={"cpu": "1"})
    assert by_name(scenario([hinted]))["p"].usage.tolist() == [[0], [1024**3]]
