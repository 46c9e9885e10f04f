"""Explanation of a decision: one sentence for each node."""

import json

import pytest

from scheduler_plugin.decisions import explanation
from scheduler_plugin.load_watcher.records import Data, Metric, NodeMetrics, Snapshot, Window, Windows
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
    parts.extender.prioritize(request(pod, nodes), NOW + 12)
    if bound_to:
        parts.records.bound("default/web", "uid-web", bound_to)
    plugins = parts.cycle.rejecting_plugins
    found = explanation.page("default/web", parts.records.decisions("default/web"), plugins, parts.resources)
    json.dumps(found, allow_nan=False)
    return found["decisions"][0]


def sentences(decision):
    return {node["node"]: node["sentence"] for node in decision["nodes"]}


def measure(made, data):
    """Let the plugins see a measurement of the newest window."""
    windows = Windows(300)
    windows.store(Snapshot(int(NOW), Window("15m", int(NOW) - 900, int(NOW)), "test", data))
    made.measurements.select(windows, NOW)
    for plugin in made.measured:
        for entry in made.cluster.entries.values():
            plugin.write(entry)
    made.measurements.confirm_rows()


def test_each_node_has_one_sentence(parts):
    # 0.285 * 100 is less than 28.5 in floats, and the decision uses floats
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


def test_a_choice_against_the_scores_is_attributed_to_kube_scheduler(parts):
    shown = sentences(decided(parts, bound_to="warm"))
    preferred = "which kube-scheduler's own scores preferred"
    assert shown["cool"].startswith(f"passed, score 85, 5 more than the chosen node, {preferred};")
    parts.cluster.metric_changed(factories.metric("warm", usage={"cpu": "10", "memory": "10Gi"}))
    parts.cluster.pod_deleted("default", "web")
    shown = sentences(decided(parts, bound_to="warm"))
    assert shown["cool"].startswith("passed, score 85, same score as the chosen node (tie broken by kube-scheduler);")


def test_explains_a_pod_that_was_not_bound(parts):
    assert decided(parts, nodes=["hot"])["outcome"] == "no node passed, kube-scheduler will try again"
    decision = decided(parts)
    assert decision["node"] is None
    assert "not bound" in decision["outcome"]
    assert sentences(decision)["cool"].startswith("passed, score 85; ")


def test_measurements_are_shown_once_for_any_number_of_plugins():
    enabled = [{"name": "TargetLoadPacking"}, {"name": "LoadVariationRiskBalancing"}]
    made = factories.parts(plugins={"score": {"enabled": enabled}})
    made.cluster.node_changed(factories.node("cool"))
    made.cluster.node_changed(factories.node("warm"))
    metrics = [
        Metric("", kind, operator, "15m", value)
        for kind, operator, value in (("CPU", "AVG", 31.0), ("CPU", "STD", 4.0), ("Memory", "AVG", 52.0))
    ]
    data = Data({"cool": NodeMetrics(metrics)})
    measure(made, data)
    shown = sentences(decided(made, nodes=["cool", "warm"]))
    assert shown["cool"].count("measured cpu 31 % of capacity, deviation 4 %") == 1
    assert shown["cool"].count("measured memory 52 % of capacity, deviation 0 %") == 1
    assert "not measured" in shown["warm"]


@pytest.mark.parametrize("entry", registry.PLUGINS.values(), ids=list(registry.PLUGINS))
def test_kube_scheduler_can_group_the_reasons(entry):
    built = entry.create(entry.args.model_validate({}).with_defaults(), Measurements())
    for reason in getattr(built, "reasons", ()):
        assert reason.startswith("node(s) ")
        assert not any(character.isdigit() for character in reason)


def test_each_resource_that_is_not_measured_has_its_fallback_beside_those_that_are():
    made = factories.parts(plugins={"score": {"enabled": [{"name": "TargetLoadPacking"}]}})
    for name in ("cool", "warm"):
        made.cluster.node_changed(factories.node(name))
    data = Data({"cool": NodeMetrics([Metric("", "Memory", "AVG", "15m", 52.0)])})
    measure(made, data)
    shown = sentences(decided(made, nodes=["cool", "warm"]))["cool"]
    assert "cpu: " in shown
    assert "measured memory 52 % of capacity, deviation 0 %" in shown
