"""Values of the metrics page about the live evaluation and the predictors of packages."""

from __future__ import annotations

import types

import pytest
from prometheus_client import CollectorRegistry

from koordlet.metrics.evaluation import EvaluationCollector
from koordlet.prediction import evaluation
from koordlet.prediction.evaluation import Dropped, LiveEvaluation
from koordlet.prediction.evaluation_scores import Record, Scores
from koordlet.prediction.packages.guard import Failed, GuardedPredictor
from koordlet.prediction.packages.loaded import LoadedPredictors
from koordlet.samples import Resource
from tests.koordlet.fed_node import FedNode
from tests.koordlet.one_node import StaticCluster


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
