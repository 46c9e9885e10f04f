import math

import pytest

from koordlet.prediction.parameters import InvalidParameters, PredictParameters


def test_defaults_are_those_of_the_predict_policy():
    assert PredictParameters() == PredictParameters(
        predictor="n-sigma-v2",
        n=5,
        percentile=99,
        cpu_percentile=95,
        memory_percentile=98,
        request_divisor=1.1,
        members=("n-sigma-v2", "resource-central"),
        safety_margin_percent=None,
        cpu_half_life_seconds=43200,
        memory_half_life_seconds=86400,
        cold_start_period_seconds=7200,
    )


@pytest.mark.parametrize(("predictor", "percent"), [("n-sigma-v2", 0), ("percentile", 10), ("max", 0)])
def test_the_default_margin_depends_on_the_predictor(predictor, percent):
    assert PredictParameters(predictor=predictor).margin_percent == percent


def test_a_margin_that_is_set_holds_for_every_predictor_even_if_it_is_zero():
    assert PredictParameters(predictor="percentile", safety_margin_percent=0).margin_factor == 1
    assert (
        PredictParameters(predictor="max", safety_margin_percent=25).for_predictor("percentile").margin_factor == 1.25
    )


@pytest.mark.parametrize(
    ("key", "wrong", "boundary"),
    [
        ("n", 0, 20),
        ("n", 20.1, 0.1),
        ("n", math.nan, 1),
        ("percentile", 0, 100),
        ("cpu_percentile", 100.5, 100),
        ("memory_percentile", -1, 0.5),
        ("request_divisor", 0.99, 1),
        ("request_divisor", 11, 10),
        ("members", (), ("borg-default",)),
        ("safety_margin_percent", -1, 0),
        ("safety_margin_percent", 101, 100),
        ("cpu_half_life_seconds", 59, 60),
        ("memory_half_life_seconds", math.inf, 1e9),
        ("cold_start_period_seconds", -1, 0),
        ("cold_start_period_seconds", 604801, 604800),
    ],
)
def test_a_number_out_of_range_is_refused_by_name_and_the_boundary_is_not(key, wrong, boundary):
    with pytest.raises(InvalidParameters, match=f"{key} is "):
        PredictParameters(**{key: wrong})
    assert getattr(PredictParameters(**{key: boundary}), key) == boundary
