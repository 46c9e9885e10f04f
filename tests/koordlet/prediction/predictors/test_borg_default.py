import pytest

from koordlet.prediction.parameters import PredictParameters
from koordlet.prediction.peaks import NoPrediction
from koordlet.prediction.predictors import borg_default
from tests.koordlet.prediction.plain_statistics import PlainStatistics, prod_load

SYSTEM = PlainStatistics([0.5], [0.1])  # sig = 1 with N = 5


def test_requests_are_divided_once_and_the_system_and_cold_requests_added():
    answer = borg_default.peak(
        prod_load(unreserved_system=SYSTEM, warm_requests=22.0, cold_requests=4.0), PredictParameters()
    )
    assert answer.peak == pytest.approx(20.0 + 1.0 + 4.0)
    assert (answer.pod_sum_peak, answer.system_peak, answer.cold_requests) == pytest.approx((20.0, 1.0, 4.0))
    assert answer.class_peak is None


def test_divisor_and_margin_are_parameters():
    load = prod_load(unreserved_system=SYSTEM, warm_requests=22.0, cold_requests=4.0)
    answer = borg_default.peak(load, PredictParameters(request_divisor=2, safety_margin_percent=10))
    assert answer.peak == pytest.approx((11.0 + 1.0) * 1.1 + 4.0)


def test_without_a_sample_of_the_system_there_is_no_prediction():
    answer = borg_default.peak(prod_load(warm_requests=22.0), PredictParameters())
    assert answer == NoPrediction("no current cpu sample of unreserved system")
