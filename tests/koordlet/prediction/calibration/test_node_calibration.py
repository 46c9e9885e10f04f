"""Calibrated peaks of a server that is trained every 5 minutes, beside those of n-sigma-v2."""

import copy
import functools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from koordlet.metric_cache import series as class_series
from koordlet.metric_cache.series import Reserved
from koordlet.prediction.allocation import WholeAmounts
from koordlet.prediction.calibration.history import Prior
from koordlet.prediction.parameters import PredictParameters
from koordlet.prediction.predictors import registry
from koordlet.prediction.server import Prediction, PredictionServer
from koordlet.samples import Resource, Snapshot, UsageSample
from tests.koordlet.prediction.pods import Pod

GIB = 2**30
START = 1.7e9
STEP_SECONDS = 300
HOUR = 12
"""Steps of an hour."""
CAPACITY = WholeAmounts(16_000, 64 * GIB)
ALLOCATABLE = WholeAmounts(15_000, 60 * GIB)
CALIBRATED = PredictParameters(predictor="calibrated")
PODS = [Pod(name, cpu_request_millis=3000, memory_request_bytes=12 * GIB) for name in "abcd"]
SYSTEM = UsageSample(1.5, 5.0 * GIB)
WAVE = 0.5 + 0.4 * np.sin(np.arange(2000) / 12 / 24 * 2 * np.pi)


class Node:
    """A server, and the wall clock that it is trained by."""

    def __init__(self, parameters=CALIBRATED, is_calibrated=True):
        self.server = PredictionServer(parameters, training_interval_seconds=STEP_SECONDS)
        self.now = START
        self.boot = 0.0
        self.steps = 0
        self.is_calibrated = is_calibrated

    def step(self, pods=PODS, cores=None, system=SYSTEM, capped=()):
        self.now += STEP_SECONDS
        self.boot += STEP_SECONDS
        wave = WAVE[self.steps % len(WAVE)] if cores is None else cores
        self.steps += 1
        usage = {pod.uid: UsageSample(wave, (2 + wave) * GIB) for pod in pods}
        parts = [*usage.values(), *([system] if system else [])]
        node = UsageSample(sum(each[0] for each in parts), sum(each[1] for each in parts))
        snapshot = Snapshot(self.now, node, system, usage)
        self.server.train(self.now, class_series.snapshot_series(snapshot, {}, Reserved(1.0, 4.0 * GIB)), self.boot)
        if self.is_calibrated:
            self.server.calibrate(self.now, pods, CAPACITY, capped=capped)
        return self

    def run(self, hours, **options):
        for _ in range(round(hours * HOUR)):
            self.step(**options)
        return self

    def predict(self, parameters=None, pods=PODS, capacity=CAPACITY):
        return self.server.predict(self.now, pods, ALLOCATABLE, parameters, capacity)

    def peak(self, resource=Resource.CPU, **options):
        return self.predict(**options).prod[resource]


def labels(node):
    return node.server.calibration.labels()


@functools.cache
def stored():
    """Return the models and the calibration of a node after three days."""
    node = Node().run(75)
    return node.now, node.server.export(), node.server.calibration.export()


def known():
    """Return a node with three days of history."""
    node = Node()
    node.now, models, calibration = stored()
    node.boot, node.steps = node.now - START, 75 * HOUR
    node.server.restore(models, copy.deepcopy(calibration))
    return node


def test_the_answer_is_that_of_n_sigma_v2_then_the_larger_of_both_then_its_own():
    node = Node()
    n_sigma = PredictParameters()
    for until, level in ((23, "n-sigma-v2"), (47, "max"), (74, "calibrated")):
        node.run(until - node.steps / HOUR)
        for resource in Resource:
            found, other = node.peak(resource), node.peak(resource, parameters=n_sigma)
            assert found.level == level
            assert other.level is None
            if level == "n-sigma-v2":
                assert found.peak == pytest.approx(other.peak)
            elif level == "max":
                assert found.peak >= other.peak
            else:
                assert found.peak < other.peak


def test_after_three_days_it_saves_more_than_n_sigma_v2_and_is_high_enough():
    node = known()
    peaks = []
    for _ in range(24 * HOUR):
        node.step()
        total = 4 * WAVE[node.steps - 1] + 0.5
        peaks.append((node.peak().peak, total))
    found, used = np.array(peaks).T
    ahead = np.array([used[index + 1 : index + 1 + HOUR].max() for index in range(len(used) - HOUR)])
    assert (found[: len(ahead)] < ahead).mean() <= 0.01
    assert found.mean() < node.peak(parameters=PredictParameters()).peak


def test_a_calibration_changes_no_prediction_of_another_predictor():
    with_it, without = Node(), Node(is_calibrated=False)
    for hours in (5, 25, 30):
        for name in ("n-sigma-v1", "n-sigma-v2", "borg-default", "resource-central", "percentile", "max"):
            parameters = PredictParameters(predictor=name)
            found, expected = (node.run(0).predict(parameters) for node in (with_it, without))
            assert found == expected
        with_it.run(hours)
        without.run(hours)


@given(
    cpu=st.integers(100, 40_000),
    memory=st.integers(1, 100),
    cores=st.floats(0, 6),
    target=st.sampled_from([0.5, 1.0, 5.0]),
    margin=st.sampled_from([None, 0.0, 50.0]),
)
@settings(max_examples=25)
def test_a_peak_is_at_most_the_capacity_and_at_least_the_usage_now(cpu, memory, cores, target, margin):
    node = known().step(cores=cores)
    parameters = PredictParameters(
        predictor="calibrated", violation_target_percent=target, safety_margin_percent=margin
    )
    capacity = WholeAmounts(cpu, memory * GIB)
    for resource, used in ((Resource.CPU, 4 * cores + 0.5), (Resource.MEMORY, (8 + 4 * cores + 1) * GIB)):
        limit = capacity.in_cores_or_bytes(resource)
        peak = node.peak(resource, parameters=parameters, capacity=capacity).peak
        assert min(used, limit) * (1 - 1e-6) <= peak <= limit * (1 + 1e-6)


@given(st.lists(st.integers(0, 8000), min_size=2, max_size=6).map(sorted))
@settings(max_examples=20)
def test_a_larger_request_of_a_cold_pod_never_lowers_the_peak(requests):
    node = known()
    for resource in Resource:
        peaks = [
            node.peak(
                resource, pods=[*PODS, Pod("cold", cpu_request_millis=each, memory_request_bytes=each << 20)]
            ).peak
            for each in requests
        ]
        assert peaks == sorted(peaks)


def test_a_margin_raises_the_peak_and_a_higher_target_lowers_it():
    node = known()
    peaks = [
        node.peak(parameters=PredictParameters(predictor="calibrated", **given)).peak
        for given in ({"safety_margin_percent": 20.0}, {}, {"violation_target_percent": 5.0})
    ]
    assert peaks == sorted(peaks, reverse=True)
    assert len(set(peaks)) == 3


def test_a_restart_changes_no_peak_and_loses_no_forecast():
    whole = Node().run(75)
    restarted = known()
    for _ in range(2 * HOUR):
        assert restarted.step().predict() == whole.step().predict()
    assert labels(restarted) == labels(whole)


def test_usage_that_was_held_down_confirms_no_forecast():
    node = known()
    before = labels(node)
    node.run(10, capped={Resource.CPU})
    assert labels(node)[Resource.CPU] == before[Resource.CPU]
    assert labels(node)[Resource.MEMORY] == before[Resource.MEMORY] + 10


def test_without_a_sample_of_the_system_nothing_is_recorded():
    node = known()
    before = labels(node)
    node.run(2, system=None)
    node.run(0.5)
    assert labels(node) == before


def test_10_000_pods_an_hour_need_no_more_rows_than_run_at_a_time():
    node = Node().run(1)
    sizes = []
    for turn in range(HOUR):
        node.step(pods=[Pod(f"{turn}-{number}", cpu_request_millis=10) for number in range(833)])
        sizes.append(len(node.server.calibration.export().keys))
    assert max(sizes) == 834
    assert all(len(each.ring.values) == 896 for each in node.server.calibration.resources.values())
    node.step()
    assert len(node.server.calibration.export().keys) == 5


def test_policies_that_are_predicted_together_get_the_answers_of_each_alone():
    node = Node(CALIBRATED).run(75)
    policies = [
        PredictParameters(predictor=name, n=n, cold_start_period_seconds=cold, members=("n-sigma-v1", "calibrated"))
        for name in (*registry.PREDICTORS, "no-such-predictor")
        for n in (3.0, 5.0)
        for cold in (7200.0, 400_000.0)
    ]
    together = node.server.predict_each(node.now, PODS, ALLOCATABLE, policies, CAPACITY, unmeasured={"b"})
    alone = [node.server.predict(node.now, PODS, ALLOCATABLE, each, CAPACITY, unmeasured={"b"}) for each in policies]
    assert together == alone
    assert len({each.prod[Resource.CPU].peak for each in together if isinstance(each, Prediction)}) == 12


@pytest.mark.parametrize("changed", [{"cold_start_period_seconds": 1800}, {"cold_start": "strict"}])
def test_scores_begin_again_where_the_forecasts_are_made_with_other_pods(changed):
    node = known()
    assert node.step().peak().level == "calibrated"
    node.server.configure(PredictParameters(predictor="calibrated", **changed))
    assert node.step().peak().level == "n-sigma-v2"
    assert set(labels(node).values()) == {0}
    assert set(labels(node.run(2)).values()) == {2}


def test_scores_of_an_agent_that_did_not_note_what_they_were_made_with_begin_again_once():
    node = Node()
    node.now, models, calibration = stored()
    calibration = copy.deepcopy(calibration)
    for resource in calibration.resources.values():
        resource.scores.basis = ""
    node.server.restore(models, calibration)
    assert set(labels(node.step()).values()) == {0}
    assert set(labels(node.run(3)).values()) == {3}


def prior_of(node, **changed):
    """Return the scores of a node as those of nodes like it."""
    scores = node.server.calibration.scores()
    weights = {resource: histogram.weights for resource, histogram in scores.items()}
    return Prior(**{"updated_seconds": START, "weights": weights} | changed)


def test_a_new_node_is_calibrated_by_the_scores_of_nodes_like_it_until_it_has_its_own():
    node, alone = Node(), Node()
    node.server.prod.prior = prior_of(known())
    for each in (node, alone):
        each.run(6)
    assert (node.peak().level, alone.peak().level) == ("prior", "n-sigma-v2")
    assert node.peak().peak < alone.peak().peak
    for each in (node, alone):
        each.run(48)
    assert node.peak() == alone.peak()


def test_scores_of_long_ago_are_not_used():
    node, prior = Node().run(1), prior_of(known(), updated_seconds=START - 3 * 86_400)
    before = node.peak()
    node.server.prod.prior = prior
    assert node.peak() == before


def test_scores_of_other_nodes_do_not_replace_those_that_began_again():
    node = known()
    node.server.prod.prior = prior_of(node, updated_seconds=node.now)
    node.server.configure(PredictParameters(predictor="calibrated", cold_start_period_seconds=1800))
    assert node.step().peak().level == "n-sigma-v2"
