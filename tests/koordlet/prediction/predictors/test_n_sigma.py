"""The N-sigma formulas on numbers computed by hand: N = 5 unless stated, sig = mean + N * stdev."""

import math

import numpy as np
import pytest

from koordlet.prediction.parameters import PredictParameters
from koordlet.prediction.peaks import NoPrediction
from koordlet.prediction.predictors import n_sigma
from tests.koordlet.prediction.plain_statistics import PlainStatistics, prod_load

DEFAULTS = PredictParameters()


def load(**overrides):
    """Prod + S: 4 + 5 * 0.2 = 5. Pods: 2 + 5 * 0.5 and 1 + 5 * 0.1 = 6. S: 0.5 + 5 * 0.1 = 1."""
    given = {
        "prod_and_unreserved_system": PlainStatistics([4.0], [0.2]),
        "unreserved_system": PlainStatistics([0.5], [0.1]),
        "warm_pods": PlainStatistics([2.0, 1.0], [0.5, 0.1]),
        "cold_requests": 3.0,
    }
    return prod_load(**(given | overrides))


def test_v1_is_the_class_as_a_whole_and_the_requests_of_cold_pods():
    answer = n_sigma.v1(load(), DEFAULTS)
    assert (answer.peak, answer.class_peak, answer.cold_requests) == pytest.approx((8.0, 5.0, 3.0))
    assert (answer.pod_sum_peak, answer.system_peak) == (None, None)


def test_v2_is_the_sum_of_the_pods_and_the_system_where_that_is_larger():
    answer = n_sigma.v2(load(), DEFAULTS)
    assert answer.peak == pytest.approx(6.0 + 1.0 + 3.0)
    assert (answer.class_peak, answer.pod_sum_peak, answer.system_peak) == pytest.approx((5.0, 6.0, 1.0))


def test_v2_is_the_class_where_that_needs_more_than_its_pods_one_by_one_and_does_not_charge_cold_pods_again():
    busy = load(prod_and_unreserved_system=PlainStatistics([10.0], [1.0]))
    assert n_sigma.v2(busy, DEFAULTS).peak == pytest.approx(15.0)
    assert n_sigma.v1(busy, DEFAULTS).peak == pytest.approx(18.0)
    settled = load(prod_and_unreserved_system=PlainStatistics([10.0], [1.0]), settled=PlainStatistics([9.0], [0.5]))
    assert n_sigma.v2(settled, DEFAULTS).peak == pytest.approx(11.5)


def test_the_margin_raises_everything_but_cold_requests():
    parameters = PredictParameters(safety_margin_percent=50)
    assert n_sigma.v1(load(), parameters).peak == pytest.approx(1.5 * 5.0 + 3.0)
    assert n_sigma.v2(load(), parameters).peak == pytest.approx(1.5 * 7.0 + 3.0)


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        ([3.0, math.inf], 3.0 + 1.5),
        ([2.0, 1.0], 2.0 + 1.0),
        ([4.5, 1.5], 4.5 + 1.5),
        ([1.9, 1.0], 4.5 + 1.0),
    ],
    ids=["one is limited", "both use all they may", "the limits are higher", "a limit that nobody enforces"],
)
def test_a_pod_counts_at_most_its_cpu_limit_unless_its_mean_shows_that_the_limit_is_not_enforced(limits, expected):
    answer = n_sigma.v2(load(warm_limits=np.array(limits)), DEFAULTS)
    assert answer.pod_sum_peak == pytest.approx(expected)


@pytest.mark.parametrize(
    ("usage", "expected"), [(0.9, 1.0), (1.09, 1.0), (1.2, 4.5), (math.nan, 4.5)],
    ids=["within it", "throttled", "above it", "unknown"],
)  # fmt: skip
def test_a_limit_that_was_lowered_in_place_counts_at_once_while_usage_is_within_it(usage, expected):
    answer = n_sigma.v2(load(warm_limits=np.array([1.0, 9.0]), warm_usage=np.array([usage, 1.0])), DEFAULTS)
    assert answer.pod_sum_peak == pytest.approx(expected + 1.5)


@pytest.mark.parametrize(
    ("predictor", "missing"),
    [
        (n_sigma.v1, "prod_and_unreserved_system"),
        (n_sigma.v2, "prod_and_unreserved_system"),
        (n_sigma.v2, "unreserved_system"),
    ],
)
def test_a_missing_series_is_no_prediction_and_is_named(predictor, missing):
    answer = predictor(load(**{missing: None}), DEFAULTS)
    assert isinstance(answer, NoPrediction)
    assert missing.replace("_and_", " + ").replace("_", " ") in answer.reason


def test_the_peak_of_the_node_is_the_larger_of_its_own_and_its_parts():
    pods, system = PlainStatistics([2.0, 1.0], [0.5, 0.1]), PlainStatistics([0.5], [0.1])
    assert n_sigma.everything(PlainStatistics([3.5], [0.1]), pods, system, 5) == pytest.approx(7.0)
    assert n_sigma.everything(PlainStatistics([3.5], [0.9]), pods, system, 5) == pytest.approx(8.0)


def test_the_peak_of_the_node_is_at_most_its_capacity():
    node, pods, system = PlainStatistics([4.0], [1.0]), PlainStatistics([3.0], [1.0]), PlainStatistics([1.0], [0.0])
    assert n_sigma.everything(node, pods, system, 5.0) == pytest.approx(9.0)
    assert n_sigma.everything(node, pods, system, 5.0, 8.0) == 8.0


SYSTEM = PlainStatistics([0.5], [0.1])  # sig = 1 with N = 5


def test_requests_are_divided_once_and_the_system_and_cold_requests_added():
    answer = n_sigma.borg_default(
        prod_load(unreserved_system=SYSTEM, warm_requests=22.0, cold_requests=4.0), PredictParameters()
    )
    assert answer.peak == pytest.approx(20.0 + 1.0 + 4.0)
    assert (answer.pod_sum_peak, answer.system_peak, answer.cold_requests) == pytest.approx((20.0, 1.0, 4.0))
    assert answer.class_peak is None


def test_divisor_and_margin_are_parameters():
    load = prod_load(unreserved_system=SYSTEM, warm_requests=22.0, cold_requests=4.0)
    answer = n_sigma.borg_default(load, PredictParameters(request_divisor=2, safety_margin_percent=10))
    assert answer.peak == pytest.approx((11.0 + 1.0) * 1.1 + 4.0)
