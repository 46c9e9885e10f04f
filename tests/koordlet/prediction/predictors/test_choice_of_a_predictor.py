"""The predictor of a policy, quickly: known answers, the limit of the capacity, and what is no answer."""

from __future__ import annotations

import math

import numpy as np
import pytest

from koordlet.prediction.parameters import PredictParameters
from koordlet.prediction.peaks import Cause, NoPrediction, Peak
from koordlet.prediction.predictors import n_sigma, registry
from koordlet.samples import Resource
from tests.koordlet.prediction.plain_statistics import PlainStatistics, prod_load


def load(resource=Resource.CPU, **overrides):
    """CPU: two warm pods that request 4.4 cores, and a cold one that requests 2."""
    series = {
        "warm_pods": PlainStatistics([1.0, 0.5], [0.2, 0.1], {95: [1.4, 0.8], 98: [1.5, 0.9], 99: [1.6, 0.9]}),
        "prod": PlainStatistics([1.5], [0.2], {95: [2.0], 98: [2.0], 99: [2.1]}),
        "system": PlainStatistics([0.6], [0.1], {95: [0.8], 98: [0.8], 99: [0.9]}),
        "unreserved_system": PlainStatistics([0.1], [0.1], {95: [0.3], 98: [0.3], 99: [0.4]}),
        "prod_and_unreserved_system": PlainStatistics([1.6], [0.3], {}),
    }
    return prod_load(resource, warm_requests=4.4, cold_requests=2.0, **(series | overrides))


PEAKS = {
    "n-sigma-v1": 1.6 + 5 * 0.3 + 2,
    "n-sigma-v2": (1.0 + 5 * 0.2) + (0.5 + 5 * 0.1) + (0.1 + 5 * 0.1) + 2,
    "borg-default": 4.4 / 1.1 + (0.1 + 5 * 0.1) + 2,
    "resource-central": 1.6 + 0.9 + 0.4 + 2,
    "percentile": 1.54 + 0.88 + 2,
    "calibrated": 5.6,  # that of n-sigma-v2 while nothing is recorded
    "max": 5.6,  # n-sigma-v2 and resource-central
}


@pytest.mark.parametrize(("name", "peak"), PEAKS.items())
def test_each_predictor_answers_by_its_formula_and_at_most_the_capacity(name, peak):
    parameters = PredictParameters(predictor=name)
    assert registry.predict(load(), parameters).peak == pytest.approx(peak)
    assert registry.predict(load(capacity=4.75), parameters).peak == pytest.approx(min(peak, 4.75))
    assert registry.predict(load(capacity=7.0), parameters).peak == pytest.approx(peak)


def test_the_margin_raises_each_term_but_the_cold_requests():
    found = registry.predict(load(), PredictParameters(safety_margin_percent=50))
    assert (found.class_peak, found.pod_sum_peak, found.system_peak) == pytest.approx((1.5 * 3.1, 1.5 * 3.0, 1.5 * 0.6))
    assert found.peak == pytest.approx(1.5 * 3.6 + 2)
    busy = load(prod_and_unreserved_system=PlainStatistics([10.0], [1.0]))
    assert registry.predict(busy, PredictParameters(safety_margin_percent=50)).peak == pytest.approx(1.5 * 15 + 2)


def test_the_terms_of_a_limited_peak_stay_what_they_are():
    found = registry.predict(load(capacity=1.0), PredictParameters())
    assert (found.peak, found.cold_requests) == (1.0, 2.0)
    assert found.pod_sum_peak == pytest.approx(3.0)


def test_the_largest_member_is_chosen_before_the_capacity_limits_it():
    members = ("n-sigma-v1", "borg-default")  # 5.1 and 6.6
    found = registry.predict(load(capacity=4.0), PredictParameters(predictor="max", members=members))
    assert found.peak == 4.0
    assert found.class_peak is None  # of n-sigma-v1 only
    assert found.pod_sum_peak == pytest.approx(4.0)


@pytest.mark.parametrize("peak", [0.0, 0.25, 1.0])
def test_a_small_peak_is_a_peak(monkeypatch, peak):
    monkeypatch.setitem(registry.PREDICTORS, "fixed", lambda _load, _parameters: Peak(peak, 0.0))
    assert registry.predict(load(), PredictParameters(predictor="fixed")) == Peak(peak, 0.0)


@pytest.mark.parametrize("peak", [-0.001, math.inf, math.nan])
def test_what_is_no_usage_is_no_prediction(monkeypatch, peak):
    monkeypatch.setitem(registry.PREDICTORS, "broken", lambda _load, _parameters: Peak(peak, 0.0))
    found = registry.predict(load(Resource.MEMORY), PredictParameters(predictor="broken"))
    assert found == NoPrediction(f"broken returned {peak} for memory", Cause.UNUSABLE_ANSWER)


def test_a_reason_for_no_prediction_is_returned_as_it_is():
    found = registry.predict(load(capacity=0.5, unreserved_system=None), PredictParameters())
    assert found == NoPrediction("no current cpu sample of unreserved system")


@pytest.mark.parametrize(
    ("parameters", "reason"),
    [
        (PredictParameters(predictor="oracle"), "predictor 'oracle' is unknown, want one of n-sigma-v1, "),
        (PredictParameters(predictor="max", members=("n-sigma-v1", "max")), "max cannot be a member of itself"),
        (PredictParameters(predictor="max", members=("n-sigma-v1", "oracle")), "oracle: predictor 'oracle' is unk"),
    ],
)
def test_a_policy_that_names_no_predictor_is_unusable(parameters, reason):
    found = registry.predict(load(), parameters)
    assert isinstance(found, NoPrediction)
    assert (found.reason[: len(reason)], found.cause) == (reason, Cause.UNUSABLE_POLICY)


@pytest.mark.parametrize(("capacity", "peak"), [(math.inf, 8.0), (8.0, 8.0), (7.5, 7.5)])
def test_the_peak_of_the_node_is_that_of_its_parts_where_they_add_up_to_more(capacity, peak):
    node, pods, system = PlainStatistics([3.0], [0.5]), PlainStatistics([4.0], [0.5]), PlainStatistics([1.0], [0.1])
    assert n_sigma.everything(node, pods, system, 5.0, capacity) == pytest.approx(peak)


def test_a_pod_whose_mean_is_its_limit_counts_its_limit():
    pods = PlainStatistics([2.0, 2.0], [0.5, 0.5])
    assert n_sigma.limited_sig(pods, np.array([2.0, 1.9]), 1.0) == pytest.approx(2.0 + 2.5)


def test_percentiles_of_memory_are_whole_bytes():
    found = registry.predict(
        load(
            Resource.MEMORY,
            warm_pods=PlainStatistics(percentiles={98: [100.9, 50.9]}),
            prod=PlainStatistics(percentiles={98: [300.9]}),
            system=PlainStatistics(percentiles={98: [20.9]}),
        ),
        PredictParameters(predictor="percentile"),
    )
    # pods: trunc(100 * 1.1) + trunc(50 * 1.1); class: trunc((300 + 20) * 1.1); system: trunc(20 * 1.1)
    assert (found.pod_sum_peak, found.class_peak, found.system_peak, found.peak) == (165.0, 352.0, 22.0, 352.0)
