"""What one attempt on a pod answers, counts and leaves behind."""

import json

import pytest

from scheduler_plugin.decisions import explanation
from tests.scheduler_plugin import factories
from tests.scheduler_plugin.factories import NOW, metric, node, pod_document, request

WEB = pod_document("web", requests={"cpu": "1", "memory": "1Gi"})


def cluster(**cpus):
    made = factories.parts()
    for name, cpu in cpus.items():
        made.cluster.node_changed(node(name))
        made.cluster.metric_changed(metric(name, usage={"cpu": cpu, "memory": "1Gi"}))
    return made


def filtered(parts, pod, *names):
    return json.loads(parts.extender.filter(request(pod, list(names)), NOW))


def scored(parts, pod, *names):
    answer = json.loads(parts.extender.prioritize(request(pod, list(names)), NOW))
    return {each["Host"]: each["Score"] for each in answer}


def bind(parts, node_name):
    binding = {"PodName": "web", "PodNamespace": "default", "PodUID": "uid-web", "Node": node_name}
    parts.extender.bind(json.dumps(binding).encode(), NOW)


def with_claims(name="web"):
    pod = pod_document(name, requests={"cpu": "1", "memory": "1Gi"})
    pod["spec"]["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": "c1"}}]
    return pod


def test_a_pod_that_no_node_passes_for_is_not_counted_by_a_bind_call():
    parts = cluster(hot="90")
    assert filtered(parts, WEB, "hot")["NodeNames"] == []
    bind(parts, "hot")
    assert parts.cluster.counts()["pods"] == 0


def test_a_refused_pod_that_is_bound_no_longer_waits():
    parts = cluster(hot="90")
    filtered(parts, WEB, "hot")
    assert len(parts.refused) == 1
    bind(parts, "hot")
    assert len(parts.refused) == 0


def test_a_sealed_record_keeps_the_usage_that_the_decision_saw():
    parts = cluster(cool="10", warm="20")
    filtered(parts, WEB, "cool", "warm")
    scored(parts, WEB, "cool", "warm")
    parts.extender.seal_record()
    parts.cluster.metric_changed(metric("cool", usage={"cpu": "55", "memory": "1Gi"}))
    found = explanation.page(
        "default/web", parts.records.of("default/web"), parts.cycle.rejecting_plugins, parts.resources
    )
    (decision,) = found["decisions"]
    inputs = {each["node"]: each["inputs"]["LoadAwareScheduling"] for each in decision["nodes"]}
    assert inputs["cool"]["usage"]["cpu"] == 10_000


@pytest.mark.parametrize(
    ("names", "outcome"), [(["cool"], "all_passed"), (["cool", "hot"], "some_rejected"), (["hot"], "none_passed")]
)
def test_a_filter_call_is_counted_once(names, outcome):
    parts = cluster(cool="10", hot="90")
    filtered(parts, WEB, *names)
    assert {name: count for name, count in parts.extender.outcomes.items() if count} == {outcome: 1}


def test_a_request_with_neither_names_nor_nodes_names_no_node():
    body = json.dumps({"Pod": WEB, "Nodes": None, "NodeNames": None}).encode()
    assert json.loads(cluster(cool="10").extender.filter(body, NOW))["NodeNames"] == []


def test_names_beside_nodes_are_used():
    body = json.dumps({"Pod": WEB, "Nodes": {"items": []}, "NodeNames": ["cool"]}).encode()
    assert json.loads(cluster(cool="10").extender.filter(body, NOW))["NodeNames"] == ["cool"]


def test_of_two_equal_nodes_a_pod_with_claims_prefers_one_by_one_point_and_counts_there():
    parts = cluster(a="10", b="10")
    filtered(parts, WEB, "a", "b")
    plain = scored(parts, WEB, "a", "b")
    assert plain["a"] == plain["b"]
    filtered(parts, with_claims(), "a", "b")
    found = scored(parts, with_claims(), "a", "b")
    assert sorted(found.values()) == [plain["a"], plain["a"] + 1]
    parts.extender.reserve(NOW, 0.0)
    (preferred,) = (name for name, score in found.items() if score > plain["a"])
    assert [entry.name for entry in parts.cluster.entries.values() if entry.load.pods] == [preferred]


def test_claims_do_not_change_the_scores_of_nodes_that_differ():
    parts = cluster(a="10", b="30")
    filtered(parts, WEB, "a", "b")
    plain = scored(parts, WEB, "a", "b")
    filtered(parts, with_claims(), "a", "b")
    assert scored(parts, with_claims(), "a", "b") == plain


def test_a_single_node_scores_a_pod_with_claims_as_any_other():
    parts = cluster(a="10")
    plain = scored(parts, WEB, "a")
    assert scored(parts, with_claims(), "a") == plain
