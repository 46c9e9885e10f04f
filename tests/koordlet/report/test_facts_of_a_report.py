"""What the agent knows of its node becomes the conditions of a report."""

from __future__ import annotations

import pytest

from koordlet.prediction.packages.guard import GuardedPredictor
from koordlet.prediction.packages.loaded import LoadedPredictors
from koordlet.samples import UsageSample
from tests.koordlet.fed_node import FedNode
from tests.koordlet.one_node import GIB, StaticCluster, bound_pod

USAGE = {"a": UsageSample(0.5, GIB)}
SYSTEM = UsageSample(0.7, GIB)


class Raises:
    def predict(self, load):
        raise ValueError("boom")


def node_of(*pods, packages=None, **policy):
    return FedNode(StaticCluster(bound_pod("a"), *pods, spec={"predictPolicy": policy}), packages=packages)


def run(node, seconds):
    for _ in node.run(seconds, lambda _step: (USAGE, SYSTEM)):
        pass
    return node


def conditions(node):
    return {each["type"]: each for each in node.report()["conditions"]}


def test_without_a_prediction_no_pod_is_counted_as_warm_or_cold():
    node = run(node_of(), 60)
    node.cluster.allocatable = None
    found = conditions(node)
    assert found["PredictionDegraded"]["reason"] == "NoPrediction"
    assert found["WarmingUp"]["status"] == "False"
    assert found["WarmingUp"]["message"] == "all 0 Prod pods are predicted from their recorded history"


@pytest.mark.parametrize("seconds", [0, 300])
def test_cold_pods_are_reported_with_the_period_of_the_policy(seconds):
    node = run(node_of(bound_pod("never-measured"), coldStartPeriodSeconds=seconds), 360)
    assert conditions(node)["WarmingUp"]["message"].startswith(f"1 of 2 Prod pods have less than {seconds} s of")


def test_no_pod_is_refused_a_model_before_the_first_training():
    node = run(node_of(), 20)
    assert node.observer.newest_training is None
    assert "have no model" not in conditions(node)["PredictionDegraded"].get("message", "")


def test_a_package_that_is_switched_off_is_reported_while_it_is_in_force():
    package = GuardedPredictor("v/raises", Raises, lambda: 0.0, lambda _text: None)
    node = run(node_of(packages=LoadedPredictors("n1", [package]), predictor="v/raises"), 60)
    found = conditions(node)["PredictionDegraded"]
    assert found["reason"] == "PredictorSwitchedOff"
    assert found["message"].startswith("predictor v/raises is switched off on node n1 until the agent restarts: ")


def test_a_predictor_that_cannot_be_evaluated_is_reported():
    node = run(node_of(evaluatedPredictors=["v/missing"]), 60)
    found = conditions(node)["PredictionDegraded"]
    assert found["reason"] == "EvaluationDegraded"
    assert found["message"].startswith("predictor v/missing is not installed on node")


def test_the_time_of_every_check_is_kept():
    node = run(node_of(), 60)
    first = node.now
    node.reports.predict(node.now, node.cluster, node.policy)
    run(node, 20)
    node.reports.predict(node.now, node.cluster, node.policy)
    assert list(node.reports.predicted_at_seconds) == [first, first + 20]
