"""What people are told of a decision: why here, why not there, in one sentence a node."""

import json

import pytest

from scheduler_plugin.decisions import explanation
from scheduler_plugin.decisions.explanation import Reasons
from scheduler_plugin.load_watcher.records import Data, Metric, NodeMetrics, Snapshot, Window
from scheduler_plugin.load_watcher.windows import Windows
from scheduler_plugin.plugins import registry
from scheduler_plugin.plugins.trimaran.measurements import Measurements
from tests.scheduler_plugin import factories
from tests.scheduler_plugin.factories import NOW, pod_document, request

NODES = ["cool", "warm", "hot", "mute"]
POD = pod_document("web", requests={"cpu": "10"})
"""Estimated at 8.5 cores."""


@pytest.fixture
def parts():
    made = factories.parts()
    for name, cpu in (("cool", "10"), ("warm", "20"), ("hot", "60"), ("mute", None)):
        made.cluster.node_changed(factories.node(name))
        if cpu is not None:
            made.cluster.metric_changed(factories.metric(name, usage={"cpu": cpu, "memory": "10Gi"}))
    return made


def decided(parts, bound_to="", nodes=NODES, pod=POD):
    parts.extender.filter(request(pod, nodes), NOW + 12)
    parts.extender.prepare()
    if bound_to:
        notice = {"PodName": "web", "PodNamespace": "default", "PodUID": "uid-web", "Node": bound_to}
        parts.extender.bind(json.dumps(notice).encode(), NOW + 12)
    reasons = Reasons(parts.cycle.reasons, parts.cycle.rejecting_policies)
    found = explanation.page("default/web", parts.records.of("default/web"), reasons, parts.resources)
    json.dumps(found, allow_nan=False)
    return found["decisions"][0]


def sentences(decision):
    return {node["node"]: node["sentence"] for node in decision["nodes"]}


def test_each_node_is_told_apart_by_one_sentence(parts):
    # 0.285 * 100 is less than 28.5 in floats, and the decision goes by floats
    decision = decided(parts, bound_to="cool")
    assert sentences(decision) == {
        "cool": "chosen, score 85; cpu 10 + 8.5 of 100 = 19 %, limit 65 %, "
        "memory 10.0Gi + 0.2Gi of 100.0Gi = 10 %, limit 95 %, report 12 s old",
        "warm": "passed, score 80, 5 less than the chosen node; cpu 20 + 8.5 of 100 = 28 %, limit 65 %, "
        "memory 10.0Gi + 0.2Gi of 100.0Gi = 10 %, limit 95 %, report 12 s old",
        "mute": "passed, score 0, 85 less than the chosen node; cpu 0 + 8.5 of 100 = 9 %, limit 65 %, "
        "memory 0.0Gi + 0.2Gi of 100.0Gi = 0 %, limit 95 %, no report",
        "hot": "rejected by LoadAwareScheduling: node(s) cpu usage exceed threshold; "
        "cpu 60 + 8.5 of 100 = 69 %, limit 65 %, memory 10.0Gi + 0.2Gi of 100.0Gi = 10 %, limit 95 %, report 12 s old",
    }
    assert [node["node"] for node in decision["nodes"]] == ["cool", "warm", "mute", "hot"]
    assert (decision["nodesAsked"], decision["nodesPassed"]) == (4, 3)
    assert decision["outcome"] == "kube-scheduler bound the pod to cool"


def test_numbers_stand_beside_the_sentence(parts):
    (cool, *_rest) = decided(parts, bound_to="cool")["nodes"]
    assert cool["scores"] == {"LoadAwareScheduling": 85}
    assert cool["reportAgeSeconds"] == 12
    inputs = cool["inputs"]["LoadAwareScheduling"]
    assert inputs["usage"] == {"cpu": 10_000, "memory": 10 * 1024**3}
    assert inputs["limitPercent"] == {"cpu": 65, "memory": 95}


def test_a_choice_against_our_scores_is_called_one(parts):
    told = sentences(decided(parts, bound_to="warm"))
    preferred = "which kube-scheduler's own scores preferred"
    assert told["cool"].startswith(f"passed, score 85, 5 more than the chosen node, {preferred};")
    parts.cluster.metric_changed(factories.metric("warm", usage={"cpu": "10", "memory": "10Gi"}))
    parts.cluster.notice_void(factories.pod("web"))
    told = sentences(decided(parts, bound_to="warm"))
    assert told["cool"].startswith(f"passed, score 85, as the chosen node, {preferred}, or chance;")


def test_a_pod_that_was_not_bound_is_explained_too(parts):
    assert decided(parts, nodes=["hot"])["outcome"] == "no node passed, kube-scheduler will try again"
    decision = decided(parts)
    assert decision["node"] is None
    assert "no bind notice came" in decision["outcome"]
    assert sentences(decision)["cool"].startswith("passed, score 85; ")


def test_nodes_that_are_not_known_or_not_short_listed_say_so():
    made = factories.parts(short_list=1)
    for name, cpu in (("cool", "10"), ("warm", "20")):
        made.cluster.node_changed(factories.node(name))
        made.cluster.metric_changed(factories.metric(name, usage={"cpu": cpu, "memory": "10Gi"}))
    told = sentences(decided(made, nodes=["cool", "warm", "nowhere"]))
    assert told["nowhere"] == "rejected: node(s) not known to the load-aware extender"


def test_several_policies_show_their_shares():
    enabled = [{"name": "LoadAwareScheduling"}, {"name": "TargetLoadPacking", "weight": 2}]
    made = factories.parts(plugins={"score": {"enabled": enabled}})
    made.cluster.node_changed(factories.node("cool"))
    made.cluster.node_changed(factories.node("warm"))
    decision = decided(made, nodes=["cool", "warm"])
    (cool, _warm) = decision["nodes"]
    assert set(cool["scores"]) == {"LoadAwareScheduling", "TargetLoadPacking"}
    assert cool["weights"] == {"LoadAwareScheduling": 1, "TargetLoadPacking": 2}
    assert "(LoadAwareScheduling 0, TargetLoadPacking " in cool["sentence"]
    assert "nothing measures any node, judged by requests" in cool["sentence"]


def test_what_the_load_watcher_measured_is_told_once_however_many_policies_go_by_it():
    enabled = [{"name": "TargetLoadPacking"}, {"name": "LoadVariationRiskBalancing"}]
    made = factories.parts(plugins={"score": {"enabled": enabled}})
    made.cluster.node_changed(factories.node("cool"))
    made.cluster.node_changed(factories.node("warm"))
    windows = Windows(300)
    metrics = [
        Metric("", kind, operator, "15m", value)
        for kind, operator, value in (("CPU", "AVG", 31.0), ("CPU", "STD", 4.0), ("Memory", "AVG", 52.0))
    ]
    data = Data({"cool": NodeMetrics(metrics)})
    windows.store(Snapshot(int(NOW), Window("15m", int(NOW) - 900, int(NOW)), "test", data))
    made.measurements.select(windows, NOW)
    for policy in made.measured:
        for entry in made.cluster.entries.values():
            policy.write(entry)
    told = sentences(decided(made, nodes=["cool", "warm"]))
    assert told["cool"].count("measured cpu 31 % of capacity, deviation 4 %") == 1
    assert told["cool"].count("measured memory 52 % of capacity, deviation 0 %") == 1
    assert "not measured" in told["warm"]


def test_a_pod_whose_estimate_failed_or_that_belongs_to_its_node_is_explained(parts):
    broken = decided(parts, pod=pod_document("web", requests={"cpu": "much"}))
    assert broken["estimate"] is None
    assert "cpu 10 + 0 of 100" in sentences(broken)["cool"]
    pinned = decided(parts, pod=pod_document("web", owner_kind="DaemonSet"))
    assert pinned["isPinned"]
    assert pinned["nodesPassed"] == 4


def test_of_many_nodes_the_first_are_shown_and_the_others_counted(parts):
    decided(parts, bound_to="cool")
    reasons = Reasons(parts.cycle.reasons, parts.cycle.rejecting_policies)
    kept = parts.records.of("default/web")
    (decision,) = explanation.page("default/web", kept, reasons, parts.resources, most_nodes=2)["decisions"]
    assert [node["node"] for node in decision["nodes"]] == ["cool", "warm"]
    assert (decision["nodesLeftOut"], decision["nodesAsked"]) == (2, 4)


def test_the_index_tells_the_last_decisions_in_short(parts):
    decided(parts, bound_to="cool")
    parts.extender.filter(request(pod_document("stuck"), ["hot"]), NOW + 13)
    lines = explanation.index(parts.records.recent(500))
    assert [(line["pod"], line["nodesAsked"], line["nodesPassed"], line["node"]) for line in lines] == [
        ("default/stuck", 1, 1, None),
        ("default/web", 4, 3, "cool"),
    ]
    assert len(parts.records.recent(1)) == 1


@pytest.mark.parametrize("entry", registry.POLICIES.values(), ids=list(registry.POLICIES))
def test_reasons_are_texts_that_kube_scheduler_can_group(entry):
    built = entry.build(entry.complete(entry.args.model_validate({})), Measurements())
    for reason in getattr(built, "reasons", ()):
        assert reason.startswith("node(s) ")
        assert not any(character.isdigit() for character in reason)
