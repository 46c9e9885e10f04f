"""Predictors of packages on a node: published, switched off, missing, and evaluated without an effect."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from koordlet.metrics.evaluation import EvaluationCollector
from koordlet.prediction.packages.guard import GuardedPredictor
from koordlet.prediction.packages.loaded import LoadedPredictors
from koordlet.prediction.server import Prediction
from koordlet.samples import Resource, UsageSample
from tests.koordlet.fed_node import FedNode
from tests.koordlet.one_node import GIB, StaticCluster, bound_pod

HORIZON = 900
SYSTEM = UsageSample(0.7, 1.25 * GIB)


def usage(step):
    return {
        "steady": UsageSample(0.4, 0.5 * GIB),
        "bursty": UsageSample(1.9 if step % 97 < 6 else 0.2, 0.2 * GIB + 2**20 * (step % 13)),
        **({"younger": UsageSample(2.5, 2 * GIB)} if step > 60 else {}),
    }, SYSTEM


def node_with(packages, **policy):
    policy = {"coldStartPeriodSeconds": 300, "horizonSeconds": HORIZON, **policy}
    pods = (bound_pod("steady"), bound_pod("bursty"))
    loaded = LoadedPredictors(
        "n1", [GuardedPredictor(name, build, lambda: 0.0, lambda _text: None) for name, build in packages.items()]
    )
    return FedNode(StaticCluster(*pods, spec={"predictPolicy": policy}), packages=loaded)


def after(node, seconds):
    for _ in node.run(seconds, usage):
        pass
    return node


def reported(node):
    status = node.report()
    return status, {each["type"]: each for each in status["conditions"]}


class TwiceTheMean:
    given: list = []  # noqa: RUF012  # of all instances

    def predict(self, load):
        self.given.append(load)
        return 2 * (load.pods.mean.sum() + load.unreserved_system.mean.sum())


class Raises:
    def predict(self, load):
        raise ValueError("boom")


class RaisesOnMemory:
    def predict(self, load):
        return 1.0 if load.resource == "cpu" else math.nan


def arrays_of(load):
    series = (load.pods, load.unreserved_system)
    own = [array for each in series for array in (each.mean, each.stdev, each.newest, each.ring)]
    return [*own, load.pod_requests, load.pod_limits, *(each.percentiles(50, 99) for each in series)]


class Hostile:
    """Writes to all that it is given, then fails as its number requests."""

    kind = 0
    refused_writes = 0

    def observe(self, load):
        self.spoil(load)

    def predict(self, load):
        self.spoil(load)
        answers = [lambda: 1e9, lambda: math.nan, lambda: "none", lambda: 1 / 0, lambda: exit(3), lambda: None]
        return answers[self.kind]()

    def spoil(self, load):
        for array in arrays_of(load):
            try:
                array[...] = 77.0
            except ValueError:
                type(self).refused_writes += 1
            array.flags.writeable = True  # it owns its copy
            array[...] = 77.0

    def save(self):
        raise SystemExit(4)


def test_the_one_in_force_is_published_with_margin_and_cold_requests():
    TwiceTheMean.given.clear()
    node = after(node_with({"v/twice": TwiceTheMean}, predictor="v/twice", safetyMarginPercent=10), 1200)
    status, conditions = reported(node)
    given = {load.resource: load for load in TwiceTheMean.given}["cpu"]
    expected = 1.1 * 2 * (given.pods.mean.sum() + given.unreserved_system.mean.sum()) + given.cold_requests
    assert status["prediction"]["prod"]["peak"]["cpu"] == f"{math.ceil(1000 * expected - 1e-6)}m"
    assert status["prediction"]["predictor"] == "v/twice"
    assert conditions["PredictionDegraded"]["status"] == "False"


def test_it_is_given_what_the_protocol_names():
    TwiceTheMean.given.clear()
    node = after(node_with({"v/twice": TwiceTheMean}, predictor="v/twice"), 1200)
    node.cluster.pods.put(bound_pod("new", cpu_request_millis=700))
    node.report()
    given = TwiceTheMean.given[-2]
    assert (given.resource, given.capacity, given.horizon_seconds) == ("cpu", 16.0, 900.0)
    steady, bursty = map(given.pod_uids.index, ("steady", "bursty"))
    assert given.cold_requests == pytest.approx(0.7)
    assert given.pod_requests.tolist() == [1.0, 1.0]
    assert np.isinf(given.pod_limits).all()
    assert given.pods.ring.shape == (2, 288)
    assert given.pods.ring[steady, :4] == pytest.approx([0.4] * 4, rel=1e-3)  # stored as float16
    assert np.nanmax(given.pods.ring[bursty]) == pytest.approx(1.9, rel=1e-3)
    assert given.pods.ring[bursty, 0] == pytest.approx(1.9, rel=1e-3)  # the burst of second 970 is in the present slot
    assert given.unreserved_system.ring.shape == (1, 288)
    assert np.isnan(given.pods.ring[:, 10:]).all()
    assert given.pods.percentiles(50, 99).shape == (2, 2)
    assert not any(array.flags.writeable for array in arrays_of(given))
    assert given.pods.newest[[steady, bursty]].tolist() == pytest.approx([0.4, 0.2])
    memory = TwiceTheMean.given[-1]
    assert (memory.resource, memory.capacity) == ("memory", 16 * GIB)
    assert memory.pods.mean[steady] == pytest.approx(0.5 * GIB)


@pytest.mark.parametrize("broken", [Raises, RaisesOnMemory])
def test_n_sigma_steps_in_for_one_that_is_switched_off_and_a_condition_says_so(broken):
    broken_node = after(node_with({"v/bad": broken}, predictor="v/bad"), 1200)
    plain_node = after(node_with({}, predictor="n-sigma-v2"), 1200)
    status, conditions = reported(broken_node)
    expected, _ = reported(plain_node)
    for field in ("prodPeakMetric", "prodReclaimableMetric"):
        assert status[field] == expected[field]
    assert status["prediction"]["predictor"] == "n-sigma-v2"
    condition = conditions["PredictionDegraded"]
    assert (condition["status"], condition["reason"]) == ("True", "PredictorSwitchedOff")
    assert condition["message"].startswith(
        "predictor v/bad is switched off on node n1 until the agent restarts: predict("
    )
    assert "n-sigma-v2 is in force in its place" in condition["message"]
    observer = broken_node.observer
    metrics = {each.name: each for each in EvaluationCollector(observer.evaluation, observer.server).collect()}
    (sample,) = metrics["koordlet_predictor_switched_off"].samples
    assert (sample.labels, sample.value) == ({"predictor": "v/bad"}, 1.0)


def test_the_substitute_is_evaluated_as_the_one_in_force():
    node = after(node_with({"v/bad": Raises}, predictor="v/bad", evaluatedPredictors=["borg-default"]), 1800)
    assert list(node.observer.evaluation.records) == ["n-sigma-v2", "borg-default"]


def test_a_missing_one_in_force_is_no_prediction_and_the_condition_has_all_that_is_needed():
    node = after(node_with({"v/twice": TwiceTheMean}, predictor="v/other"), 1200)
    status, conditions = reported(node)
    assert "prodPeakMetric" not in status
    condition = conditions["PredictionDegraded"]
    assert (condition["status"], condition["reason"]) == ("True", "NoPrediction")
    assert condition["message"] == (
        "predictor v/other is not installed on node n1: installed are n-sigma-v1, n-sigma-v2, borg-default, "
        "resource-central, percentile, calibrated, max; from packages v/twice; install its package in the agent's "
        "image, or name another predictor in colocation-config"
    )
    assert node.reports.without_prediction["predictor_missing"] > 0


def test_a_missing_evaluated_one_is_a_condition_and_the_others_are_evaluated():
    node = after(node_with({}, evaluatedPredictors=["v/other", "borg-default"]), 1800)
    status, conditions = reported(node)
    condition = conditions["PredictionDegraded"]
    assert (condition["status"], condition["reason"]) == ("True", "EvaluationDegraded")
    assert "predictor v/other is not installed on node n1" in condition["message"]
    assert condition["message"].endswith("the published prediction is not affected")
    assert [each["predictor"] for each in status["prediction"]["evaluation"]] == ["n-sigma-v2", "borg-default"]


def test_of_an_evaluated_one_that_fails_only_the_evaluation_ends():
    node = after(node_with({"v/bad": Raises}, evaluatedPredictors=["v/bad", "borg-default"]), 1800)
    status, conditions = reported(node)
    message = conditions["PredictionDegraded"]["message"]
    assert conditions["PredictionDegraded"]["reason"] == "EvaluationDegraded"
    assert "predict(cpu) raised ValueError: boom; only its evaluation ends" in message
    assert "in its place" not in message
    assert [each["predictor"] for each in status["prediction"]["evaluation"]] == ["n-sigma-v2", "borg-default"]


def test_the_substitute_of_an_evaluated_one_is_not_evaluated():
    node = after(node_with({"v/bad": Raises}, predictor="borg-default", evaluatedPredictors=["v/bad"]), 1800)
    assert {each.predictor for each in node.observer.evaluation.outcomes} == {"borg-default"}


def test_a_working_one_is_evaluated_beside_the_one_in_force():
    node = after(node_with({"v/twice": TwiceTheMean}, evaluatedPredictors=["v/twice"]), 1800)
    status, _ = reported(node)
    assert [each["predictor"] for each in status["prediction"]["evaluation"]] == ["n-sigma-v2", "v/twice"]


@settings(max_examples=12)
@given(kind=st.integers(0, 5), in_force=st.sampled_from(["n-sigma-v2", "calibrated", "resource-central"]))
def test_no_package_that_is_only_evaluated_has_an_effect_on_what_is_published(kind, in_force):
    Hostile.refused_writes = 0
    hostile = type("Hostile", (Hostile,), {"kind": kind})
    policy = {"predictor": in_force, "evaluatedPredictors": ["v/hostile", "n-sigma-v2"]}
    with_package = node_with({"v/hostile": hostile}, **policy)
    without = node_with({}, **policy)
    for _ in zip(with_package.run(2400, usage), without.run(2400, usage), strict=True):
        left, right = (_published(node) for node in (with_package, without))
        assert left == right
    assert hostile.refused_writes > 0
    with_package.observer.server.packages.states()
    assert _published(with_package) == _published(without)


def _published(node):
    result = node.observer.server.predict(
        node.now, node.cluster.pods.active(), node.cluster.allocatable, None, node.cluster.capacity
    )
    return (result.parameters, result.prod, result.prod_peak, result.node) if isinstance(result, Prediction) else result


def test_where_no_package_is_installed_nothing_is_built_for_one(monkeypatch):
    node = node_with({})
    monkeypatch.setattr("koordlet.prediction.packages.inputs.load_of", None)
    after(node, 1200)
    assert node.report()["prediction"]["predictor"] == "n-sigma-v2"
    assert Resource.CPU in node.observer.server.calibration.resources
