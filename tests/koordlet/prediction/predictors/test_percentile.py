"""Koordinator's own examples (p95 of CPU, p98 of memory, 10 % margin), and its truncations."""

import pytest

from koordlet.prediction.parameters import PredictParameters
from koordlet.prediction.peaks import NoPrediction
from koordlet.prediction.predictors import percentile
from koordlet.samples import Resource
from tests.koordlet.prediction.plain_statistics import PlainStatistics, prod_load

PERCENTILE = PredictParameters(predictor="percentile")
MIB = 2**20


def cpu(*cores):
    return PlainStatistics(percentiles={95: list(cores)})


def memory(*size_bytes):
    return PlainStatistics(percentiles={98: list(size_bytes)})


NO_SYSTEM = {"prod": cpu(0.0), "system": cpu(0.0)}


def test_a_warm_pod_counts_its_percentile_and_a_tenth_a_cold_one_its_request():
    """The warm pod's p95 is 500 m; a cold one requests 1000 m and one without a model 500 m."""
    answer = percentile.peak(prod_load(warm_pods=cpu(0.5), cold_requests=1.5, **NO_SYSTEM), PERCENTILE)
    assert answer.peak * 1000 == pytest.approx(2050, abs=1e-9)
    assert answer.pod_sum_peak == pytest.approx(0.55)


def test_memory_reads_its_own_percentile_and_truncates_each_pod_to_a_byte():
    answer = percentile.peak(
        prod_load(
            Resource.MEMORY,
            warm_pods=memory(768 * MIB),
            cold_requests=1536.0 * MIB,
            prod=memory(0),
            system=memory(0),
        ),
        PERCENTILE,
    )
    assert answer.peak == 2496449740


def test_the_class_with_the_system_counts_where_it_is_larger():
    load = prod_load(warm_pods=cpu(0.1), prod=cpu(0.5), system=cpu(0.3), cold_requests=0.2)
    answer = percentile.peak(load, PredictParameters(predictor="percentile", safety_margin_percent=0))
    assert (answer.peak, answer.class_peak, answer.system_peak) == pytest.approx((0.8, 0.8, 0.3))


def test_percentiles_are_truncated_to_millicores_before_and_after_the_margin():
    load = prod_load(warm_pods=cpu(0.0259, 0.0259), **NO_SYSTEM)  # 25 m each, 27.5 m with margin
    assert percentile.peak(load, PERCENTILE).pod_sum_peak == pytest.approx(0.054)


def test_the_percentiles_are_parameters():
    load = prod_load(warm_pods=PlainStatistics(percentiles={50: [1.0]}), prod=cpu(0), system=cpu(0))
    parameters = PredictParameters(predictor="percentile", cpu_percentile=50)
    load_at_50 = prod_load(
        warm_pods=load.warm_pods,
        prod=PlainStatistics(percentiles={50: [0.0]}),
        system=PlainStatistics(percentiles={50: [0.0]}),
    )
    assert percentile.peak(load_at_50, parameters).peak == pytest.approx(1.1)


@pytest.mark.parametrize("missing", ["prod", "system"])
def test_a_missing_series_is_no_prediction_and_is_named(missing):
    answer = percentile.peak(prod_load(**(NO_SYSTEM | {missing: None})), PERCENTILE)
    assert answer == NoPrediction(f"no current cpu sample of {missing}")


LOAD = prod_load(
    warm_pods=PlainStatistics(percentiles={99: [2.0, 3.0], 50: [1.0, 1.5]}),
    unreserved_system=PlainStatistics(percentiles={99: [0.5], 50: [0.25]}),
    cold_requests=4.0,
)


def test_percentiles_of_the_pods_and_the_system_add_up():
    answer = percentile.resource_central(LOAD, PredictParameters())
    assert (answer.peak, answer.pod_sum_peak, answer.system_peak) == pytest.approx((9.5, 5.0, 0.5))
    assert answer.class_peak is None


def test_percentile_and_margin_are_parameters():
    answer = percentile.resource_central(LOAD, PredictParameters(percentile=50, safety_margin_percent=20))
    assert answer.peak == pytest.approx(2.75 * 1.2 + 4.0)
