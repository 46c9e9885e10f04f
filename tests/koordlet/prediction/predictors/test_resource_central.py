import pytest

from koordlet.prediction.parameters import PredictParameters
from koordlet.prediction.peaks import NoPrediction
from koordlet.prediction.predictors import resource_central
from tests.koordlet.prediction.plain_statistics import PlainStatistics, prod_load

LOAD = prod_load(
    warm_pods=PlainStatistics(percentiles={99: [2.0, 3.0], 50: [1.0, 1.5]}),
    unreserved_system=PlainStatistics(percentiles={99: [0.5], 50: [0.25]}),
    cold_requests=4.0,
)


def test_percentiles_of_the_pods_and_the_system_add_up():
    answer = resource_central.peak(LOAD, PredictParameters())
    assert (answer.peak, answer.pod_sum_peak, answer.system_peak) == pytest.approx((9.5, 5.0, 0.5))
    assert answer.class_peak is None


def test_percentile_and_margin_are_parameters():
    answer = resource_central.peak(LOAD, PredictParameters(percentile=50, safety_margin_percent=20))
    assert answer.peak == pytest.approx(2.75 * 1.2 + 4.0)


def test_without_a_sample_of_the_system_there_is_no_prediction():
    assert isinstance(resource_central.peak(prod_load(), PredictParameters()), NoPrediction)
