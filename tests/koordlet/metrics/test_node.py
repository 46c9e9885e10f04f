"""Values of the metrics page about the live evaluation and the predictors of packages."""

from __future__ import annotations

import dataclasses
import types

import prometheus_client
import pytest
from prometheus_client import parser

from api_types.kubernetes.priority_and_qos import PriorityClass
from api_types.mid_pods.cpu_limits import MidContainer, ResizablePod
from koordlet.cluster.view import ClusterView
from koordlet.metrics import node as node_metrics
from koordlet.metrics.node import (
    OTHER,
    EvaluationCollector,
    MidOfNamespace,
    NodeResourcesCollector,
    PeakComparison,
    by_namespace,
)
from koordlet.node_observer import NodeObserver
from koordlet.prediction import evaluation
from koordlet.prediction.allocation import WholeAmounts
from koordlet.prediction.evaluation import Dropped, LiveEvaluation, Record, Scores
from koordlet.prediction.packages.guard import Failed, GuardedPredictor
from koordlet.prediction.packages.loaded import LoadedPredictors
from koordlet.samples import Resource, UsageSample, pod_key
from tests.koordlet.fed_node import FedNode
from tests.koordlet.metrics.page import Page
from tests.koordlet.one_node import GIB, OneNode, StaticCluster, bound_pod


def evaluation_page(live=None, packages=None):
    server = FedNode(StaticCluster(), packages=packages).observer.server
    return Page(EvaluationCollector(live or LiveEvaluation(), server))


def test_scores_are_shown_for_each_predictor_and_resource():
    live = LiveEvaluation()
    scores = {Resource.CPU: Scores(8.0, 2.0, 0.5, 6.0, 8.0), Resource.MEMORY: Scores(4.0, 0.0, 0.0, 1.0, 2.0)}
    live.records = {"max": Record(3600.0, {}, scores)}
    page = evaluation_page(live)
    cpu, memory = ("max", "cpu"), ("max", "memory")
    assert page.values("evaluation_forecasts") == {cpu: 8.0, memory: 4.0}
    assert page.values("evaluation_violations_ratio") == {cpu: 0.25, memory: 0.0}
    assert page.values("evaluation_severity_ratio") == {cpu: 0.25}  # absent without a violation
    assert page.values("evaluation_savings_ratio") == {cpu: 0.25, memory: 0.5}


def test_closed_and_dropped_forecasts_are_counted():
    live = LiveEvaluation()
    live.outcomes[evaluation.Outcome("max", Resource.CPU, True)] = 3
    live.outcomes[evaluation.Outcome("max", Resource.CPU, False)] = 5
    live.dropped[Dropped.GAP] = 2
    page = evaluation_page(live)
    assert page.values("evaluation_closed_forecasts_total") == {
        ("max", "cpu", "violation"): 3.0,
        ("max", "cpu", "kept"): 5.0,
    }
    assert page.values("evaluation_dropped_forecasts_total") == {
        ("gap",): 2.0, ("restart",): 0.0, ("horizon_changed",): 0.0, ("reset",): 0.0,
    }  # fmt: skip


class Fails:
    def predict(self, load):
        raise ValueError("boom")


def test_each_package_is_shown_as_switched_off_or_not():
    broken, works = (GuardedPredictor(name, Fails, lambda: 0.0, lambda _text: None) for name in ("v/off", "v/on"))
    page = evaluation_page(packages=LoadedPredictors("n1", [broken, works]))
    assert page.values("predictor_switched_off") == {("v/off",): 0.0, ("v/on",): 0.0}
    with pytest.raises(Failed):
        broken.predict(types.SimpleNamespace(resource="cpu"))
    assert page.values("predictor_switched_off") == {("v/off",): 1.0, ("v/on",): 0.0}


PEAK = WholeAmounts(2000, GIB)


def test_time_counts_for_each_resource_on_its_own():
    comparison = PeakComparison()
    comparison.add(1.0, UsageSample(2.5, GIB // 2), PEAK)
    comparison.add(2.0, UsageSample(2.0, 2 * GIB), PEAK)
    assert comparison.compared == {Resource.CPU: 3.0, Resource.MEMORY: 3.0}
    assert comparison.exceeded == {Resource.CPU: 1.0, Resource.MEMORY: 2.0}


@pytest.mark.parametrize(("usage", "peak"), [(None, PEAK), (UsageSample(9.0, 9 * GIB), None)])
def test_unknown_time_is_not_compared(usage, peak):
    comparison = PeakComparison()
    comparison.add(60.0, usage, peak)
    assert comparison.compared == comparison.exceeded == {Resource.CPU: 0.0, Resource.MEMORY: 0.0}


def page(observer, cluster):
    registry = prometheus_client.CollectorRegistry()
    registry.register(NodeResourcesCollector(observer, cluster, PeakComparison()))
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in registry.collect()
        for sample in family.samples
    }


def test_allocatable_and_requests_of_a_node(tmp_path):
    mid = bound_pod(
        "mid", PriorityClass.MID, cpu_request_millis=0, mid_cpu_request_millis=1500, mid_memory_request_bytes=2 * GIB
    )
    node = OneNode(tmp_path, StaticCluster(bound_pod("a"), bound_pod("b"), mid))
    node.run(2)
    found = page(node.observer, node.cluster)
    assert found["koordlet_allocatable_cpu_cores",] == 15.5
    assert found["koordlet_allocatable_memory_bytes",] == 15 * GIB
    assert found["koordlet_requests_cpu_cores", "prod"] == 2.0
    assert found["koordlet_requests_memory_bytes", "prod"] == 2 * GIB
    assert found["koordlet_requests_cpu_cores", "mid"] == 1.5
    assert found["koordlet_requests_memory_bytes", "mid"] == 2 * GIB


def test_a_node_without_pods_requests_nothing(tmp_path):
    node = OneNode(tmp_path, StaticCluster())
    node.run(1)
    assert page(node.observer, node.cluster)["koordlet_requests_cpu_cores", "mid"] == 0.0


def test_before_the_cluster_is_known_there_is_no_value_but_the_counters(tmp_path):
    found = page(NodeObserver(tmp_path, 100), ClusterView("n1"))
    assert {name for name, *_ in found} == {
        "koordlet_prod_peak_compared_seconds_total",
        "koordlet_prod_peak_exceeded_seconds_total",
    }


def mid_pod(name, namespace="team-a", cpu=2000, memory=GIB, **overrides):
    requests = {"cpu_request_millis": 0, "mid_cpu_request_millis": cpu, "mid_memory_request_bytes": memory}
    return bound_pod(name, PriorityClass.MID, namespace=namespace, **requests, **overrides)


def lowered(limit, original=2000):
    return ResizablePod("1", (MidContainer("c0", "main", 2000, 10, original, limit, 2000),))


def test_requests_and_usage_are_summed_by_namespace():
    pods = [mid_pod("a"), mid_pod("b"), mid_pod("c", "team-b", 500, 0)]
    newest = {pod_key("a"): UsageSample(0.5, 100), pod_key("b"): UsageSample(1.0, 50)}
    assert by_namespace(pods, newest) == {
        "team-a": MidOfNamespace(4.0, 2 * GIB, 1.5, 150, 0.0),
        "team-b": MidOfNamespace(0.5, 0.0, 0.0, 0.0, 0.0),
    }


def test_pods_of_other_classes_and_pods_that_the_kubelet_has_not_taken_do_not_count():
    pods = [bound_pod("prod"), mid_pod("refused", is_admitted=False)]
    assert by_namespace(pods, {pod_key("prod"): UsageSample(1.0, 1)}) == {}


def test_a_prod_label_on_a_pod_with_mid_requests_leaves_its_usage_to_prod():
    """The sum over the namespaces is that of kind="mid"."""
    pod = dataclasses.replace(mid_pod("a"), priority_class=PriorityClass.PROD)
    assert by_namespace([pod], {pod_key("a"): UsageSample(1.0, 1)})["team-a"] == MidOfNamespace(2.0, GIB, 0, 0, 0)


def test_suppressed_is_below_the_limit_of_the_author_not_below_the_request():
    pods = [mid_pod("a", mid=lowered(500)), mid_pod("b", mid=lowered(1000, original=1200))]
    assert by_namespace(pods, {})["team-a"].suppressed_cpu_cores == 1.7


def test_many_namespaces_share_one_series_and_the_sum_stays():
    pods = [mid_pod(f"p{number}", f"team-{number}", 1000 + number) for number in range(50)]
    found = by_namespace(pods, {}, most=3)
    assert list(found) == ["team-49", "team-48", "team-47", OTHER]
    assert round(sum(each.requested_cpu_cores for each in found.values()), 6) == sum(range(1000, 1050)) / 1000


def test_the_page_has_them_only_while_pods_are_there(tmp_path):
    node = OneNode(tmp_path, StaticCluster(mid_pod("a"), bound_pod("prod")))
    registry = prometheus_client.CollectorRegistry()
    registry.register(node_metrics.MidNamespacesCollector(node.observer))
    name = "koordlet_namespace_mid_used_cpu_cores"
    assert _values(registry, name) == {}
    node.pod_cores = {"a": 0.25, "prod": 1.0}
    node.run(3)
    assert _values(registry, name) == {"team-a": 0.25}
    assert _values(registry, "koordlet_namespace_mid_requested_memory_bytes") == {"team-a": GIB}
    node.cluster.pods.drop("team-a", "a")
    node.pod_cores = {"prod": 1.0}
    node.run(1)
    assert _values(registry, name) == {}


def _values(registry, name):
    text = prometheus_client.generate_latest(registry).decode()
    return {
        sample.labels["namespace"]: round(sample.value, 6)
        for family in parser.text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name == name
    }
