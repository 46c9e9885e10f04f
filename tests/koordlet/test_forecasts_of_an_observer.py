"""Which predictions become a forecast of the live evaluation, and which usage is observed for it."""

from __future__ import annotations

import dataclasses

import pytest

from api_types.kubernetes.priority_and_qos import PriorityClass
from koordlet.cluster import spec_in_force
from koordlet.prediction import evaluation
from koordlet.prediction.peaks import NoPrediction
from koordlet.samples import Resource, UsageSample
from tests.koordlet.fed_node import FedNode
from tests.koordlet.one_node import GIB, StaticCluster, bound_pod

EVALUATED = ["resource-central", "borg-default"]
USAGE = UsageSample(0.5, float(GIB))


@pytest.fixture
def node():
    """Return a node of two Prod pods and one Mid pod with a minute of samples, not trained yet."""
    policy = {"coldStartPeriodSeconds": 0, "evaluatedPredictors": ["n-sigma-v2", *EVALUATED]}
    pods = bound_pod("a"), bound_pod("b"), bound_pod("mid", PriorityClass.MID)
    made = FedNode(StaticCluster(*pods, spec={"predictPolicy": policy}))
    sample(made, USAGE)
    return made


def sample(node, system):
    for _ in range(6):
        node.sample({"a": USAGE, "b": USAGE, "mid": USAGE}, system)


def evaluate(node):
    parameters = spec_in_force.predict_parameters(node.policy)
    node.observer.train(node.now, parameters, node.boot_seconds)
    node.observer.evaluate(node.now, node.cluster, evaluation.Plan.of(node.policy, parameters), node.boot_seconds)
    return node.observer.evaluation


def test_a_forecast_is_of_the_prod_pods_and_of_every_predictor(node):
    in_force = node.policy.predictor
    forecast = evaluate(node).forecast
    assert sorted(forecast.pods) == ["a", "b"]
    assert set(forecast.peaks) == {in_force, "n-sigma-v2", *EVALUATED}
    assert forecast.requested == {Resource.CPU: 2.0, Resource.MEMORY: 2.0 * GIB}
    assert forecast.capacity == {Resource.CPU: 16.0, Resource.MEMORY: 16.0 * GIB}
    assert forecast.made_at_seconds == node.now


def test_the_usage_of_prod_pods_and_system_is_observed_for_a_forecast(node):
    evaluate(node)
    sample(node, UsageSample(1.5, 2.0 * GIB))
    highest = evaluate(node).forecast.highest
    assert highest[Resource.CPU] == pytest.approx(0.5 + 0.5 + 1.5 - 0.5), "half a core is reserved"
    assert highest[Resource.MEMORY] == pytest.approx((1 + 1 + 2 - 1) * GIB)
    assert node.observer.evaluation.forecast.elapsed_seconds == 60.0


def test_a_substitute_answers_for_the_predictor_in_force_only(node):
    predict_each = node.observer.server.predict_each

    def answers(*given, **more):
        in_force, other, _failed, *rest = predict_each(*given, **more)
        return [named(in_force, "a substitute"), named(other, "another one"), NoPrediction("none"), *rest]

    def named(prediction, name):
        parameters = dataclasses.replace(prediction.parameters, predictor=name)
        return dataclasses.replace(prediction, parameters=parameters)

    node.observer.server.predict_each = answers
    forecast = evaluate(node).forecast
    names = list(evaluation.Plan.of(node.policy, spec_in_force.predict_parameters(node.policy)).predictors)
    assert list(forecast.peaks) == ["a substitute", *names[3:]]
