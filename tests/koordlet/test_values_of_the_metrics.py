"""Values of the metrics page: watches and reports, the live evaluation, packages, and patches of the suppression."""

from __future__ import annotations

import types
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from api_types.kubernetes.priority_and_qos import PriorityClass
from apiserver_client.watching import WatchState
from koordlet.metrics import agent as metrics
from koordlet.metrics import debug_pages, mid_namespaces
from koordlet.metrics.evaluation import EvaluationCollector
from koordlet.metrics.mid_namespaces import MidOfNamespace
from koordlet.metrics.suppression import SuppressionCollector
from koordlet.mid_suppression.resize import Outcome as Patched
from koordlet.mid_suppression.suppressor import Counts
from koordlet.node_observer import NodeObserver
from koordlet.prediction import evaluation
from koordlet.prediction.checkpointer import Checkpointer
from koordlet.prediction.evaluation import Dropped, LiveEvaluation
from koordlet.prediction.evaluation_scores import Scores
from koordlet.prediction.evaluation_state import Record
from koordlet.prediction.packages.guard import Failed, GuardedPredictor
from koordlet.prediction.packages.loaded import LoadedPredictors
from koordlet.report.builder import ReportBuilder
from koordlet.samples import Resource, UsageSample
from tests.koordlet.fed_node import FedNode
from tests.koordlet.one_node import GIB, StaticCluster, bound_pod


class Page:
    """Values of one collector."""

    def __init__(self, collector):
        self._registry = CollectorRegistry()
        self._registry.register(collector)

    def value(self, name, **labels):
        return self._registry.get_sample_value(f"koordlet_{name}", labels)

    def values(self, name):
        found = (sample for family in self._registry.collect() for sample in family.samples)
        return {tuple(each.labels.values()): each.value for each in found if each.name == f"koordlet_{name}"}


def agent_page(watches=None, counts=None, cluster=None):
    observer = NodeObserver(Path("/nonexistent"), 100)
    made = metrics.AgentCollector(
        ReportBuilder(observer), counts or metrics.Counts(), metrics.TickTimes(), watches or {},
        Checkpointer("", "n1", observer.server), cluster=cluster or StaticCluster(),
    )  # fmt: skip
    return Page(made)


def test_each_watch_has_its_state_events_reconnects_and_unreadable_objects():
    watches = {"pods": WatchState(synced=True, reconnects=2, events=5), "node": WatchState(reconnects=1)}
    cluster = StaticCluster()
    cluster.unreadable = {("pods", "shop/a"): "no uid", ("pods", "shop/b"): "no uid"}
    page = agent_page(watches, cluster=cluster)
    found = {
        name: page.values(name)
        for name in ("watch_synced", "watch_events_total", "watch_reconnects_total", "unreadable_objects")
    }
    assert found == {
        "watch_synced": {("pods",): 1.0, ("node",): 0.0},
        "watch_events_total": {("pods",): 5.0, ("node",): 0.0},
        "watch_reconnects_total": {("pods",): 2.0, ("node",): 1.0},
        "unreadable_objects": {("pods",): 2.0, ("node",): 0.0},
    }


def test_a_refused_spec_is_shown_while_it_is_refused():
    cluster = StaticCluster()
    page = agent_page(cluster=cluster)
    assert page.value("spec_refused") == 0.0
    cluster.spec_problem = "spec.predictPolicy.n is 99: too large"
    assert page.value("spec_refused") == 1.0


def test_the_time_of_the_last_report_is_shown_once_one_is_written():
    counts = metrics.Counts()
    page = agent_page(counts=counts)
    assert page.value("last_report_timestamp_seconds") is None
    counts.last_report_seconds = 1.7e9
    assert page.value("last_report_timestamp_seconds") == 1.7e9


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


def test_the_calibration_starts_with_no_score():
    node = FedNode(StaticCluster(bound_pod("a")))
    page = Page(EvaluationCollector(node.observer.evaluation, node.observer.server))
    assert page.values("calibration_scores") == {}
    for _ in node.run(60, lambda _step: ({"a": UsageSample(0.5, GIB)}, UsageSample(0.5, GIB))):
        pass
    assert page.values("calibration_scores") == {("cpu",): 0.0, ("memory",): 0.0}


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


def test_patches_of_the_suppression_are_counted_by_direction_and_outcome():
    counts = Counts()
    counts.patches["down", Patched.NOT_PERMITTED] = 4
    page = Page(
        SuppressionCollector(
            types.SimpleNamespace(
                counts=counts,
                lowered_pods=0,
                threshold_percent=lambda: None,
                planner=types.SimpleNamespace(allowed_millis=None),
            )
        )
    )
    found = page.values("suppression_patches_total")
    assert found["down", Patched.NOT_PERMITTED] == 4.0
    assert found.keys() == {(direction, outcome) for direction in ("down", "up") for outcome in Patched}
    assert sum(found.values()) == 4.0


def mid_requests(name, namespace, cpu=0, memory=0):
    return bound_pod(
        name, PriorityClass.PROD, namespace=namespace, mid_cpu_request_millis=cpu, mid_memory_request_bytes=memory
    )


def test_a_request_of_one_mid_resource_counts():
    pods = [mid_requests("a", "cpu", cpu=500), mid_requests("b", "memory", memory=GIB), mid_requests("c", "neither")]
    assert mid_namespaces.by_namespace(pods, {}) == {
        "cpu": MidOfNamespace(0.5),
        "memory": MidOfNamespace(0.0, GIB),
    }


def test_as_many_namespaces_as_there_may_be_have_their_own_series():
    pods = [mid_requests(f"p{number}", f"team-{number}", cpu=1000) for number in range(3)]
    assert list(mid_namespaces.by_namespace(pods, {}, most=3)) == ["team-0", "team-1", "team-2"]
    assert list(mid_namespaces.by_namespace(pods, {}, most=2)) == ["team-0", "team-1", mid_namespaces.OTHER]


def test_the_debug_page_has_the_samples_until_the_newest_one():
    node = FedNode(StaticCluster(bound_pod("a")))
    assert debug_pages.inputs(node.reports).pods.at_seconds.tolist() == []
    for _ in range(3):
        node.sample({"a": UsageSample(0.5, GIB)}, UsageSample(0.5, GIB))
    found = debug_pages.inputs(node.reports).pods
    assert found.at_seconds.tolist() == [node.now - 20, node.now - 10, node.now]
