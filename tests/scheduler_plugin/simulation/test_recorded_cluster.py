"""Tests of the conversion of a recording: running and arriving pods, usage, and reporting nodes."""

import json
import math

import msgspec
import numpy as np
import pytest

from scheduler_plugin.simulation import recorded_cluster
from scheduler_plugin.simulation.recorded_cluster import ANNOTATION, BadRecording, Play, Recording
from tests.fakes import apiserver
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


def test_rejects_a_cluster_without_nodes():
    with pytest.raises(BadRecording, match="no nodes"):
        scenario([], nodes=())


async def test_lists_each_kind_once():
    async with apiserver.running() as running, running.session() as api:
        running.on("GET", "/api/v1/nodes", apiserver.page("5", node("n1"), node("n2")))
        running.on("GET", "/api/v1/pods", apiserver.page("5", factories.pod_document("web")))
        reported = apiserver.page("5", report("n1", "1"))
        running.on("GET", "/apis/slo.koordinator.sh/v1alpha1/nodemetrics", reported)
        found = await recorded_cluster.from_cluster(api)
    assert [each["metadata"]["name"] for each in found.nodes] == ["n1", "n2"]
    assert [each["metadata"]["name"] for each in found.pods] == ["web"]
    assert [each["status"]["nodeMetric"]["nodeUsage"]["resources"]["cpu"] for each in found.metrics] == ["1"]


def test_names_a_file_with_too_deep_nesting(tmp_path):
    file = tmp_path / "pods.json"
    file.write_text('{"items":' * 100_000)
    with pytest.raises(BadRecording, match=r"pods\.json: "):
        recorded_cluster.from_files(str(file), str(file), None)


def test_a_line_applies_until_the_next_and_the_first_also_before():
    text = "pod,seconds,cpu,memory\na/x,90,500m,1Ki\na/x,30,1,2Ki\nb/y,0,0,0\n"
    series = recorded_cluster.usage_series(text, 60)
    assert {pod: own.tolist() for pod, own in series.items()} == {
        "a/x": [[1000, 1000, 500], [2048, 2048, 1024]],  # at 0, 60 and 120 s
        "b/y": [[0], [0]],
    }


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("pod,cpu\n", "line 1 is 'pod,cpu', want pod,seconds,cpu,memory"),
        ("", "line 1"),
        ("pod,seconds,cpu,memory\na/x,0,much,1Gi\n", "line 2 cannot be read"),
        ("pod,seconds,cpu,memory\na/x,0,1\n", "line 2 cannot be read"),
        ("pod,seconds,cpu,memory\na/x,0,1,1\na/x,nan,1,1\n", "line 3"),
        ("pod,seconds,cpu,memory\na/x,0,-1,1\n", "line 2 is 'a/x,0,-1,1', want numbers of 0 or more"),
        ("pod,seconds,cpu,memory\na/x,1e30,1,1\n", "line 2 is 'a/x,1e30,1,1', want .* up to a year"),
        (f"pod,seconds,cpu,memory\n{'a' * 200_000},0,1,1\n", "line 2 cannot be read: field larger"),
    ],
)
def test_names_an_unusable_line(text, wrong):
    with pytest.raises(BadRecording, match=wrong):
        recorded_cluster.usage_series(text, 60)
