"""Tests with the numbers of KEP-357's examples: story 1 (4 cores) and the first node of story 2 (3910 milli-cores)."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from scheduler_plugin.plugins.trimaran.formulas import overcommitment

fraction = st.floats(0.0, 1.0)


def array(value: float) -> np.ndarray:
    return np.array([float(value)])


def conditioned(mu: float, sigma: float, request: float, limit: float, *, certain: bool = False) -> float:
    risk = overcommitment.conditioned_load_risk(
        array(mu), array(sigma), array(request), array(limit), array(1.0), no_limits_are_certain=certain
    )
    return float(risk[0])


def test_the_first_node_of_the_kep_has_the_printed_risks() -> None:
    capacity = array(3910)
    mu, measured = array(2452.89) / capacity, array(467.45) / capacity
    sigma = overcommitment.unsmoothed_sigma(mu, measured, 5)
    load, _fit = overcommitment.load_risk(mu, sigma, array(2517), capacity)
    limit = overcommitment.limit_risk(array(2617), array(5816), capacity)
    risk = overcommitment.total_risk(limit, load, 0.5)
    assert sigma[0] == pytest.approx(0.27, abs=0.005)
    assert load[0] == pytest.approx(0.529, abs=6e-4)
    assert limit[0] == pytest.approx(0.596, abs=6e-4)
    assert overcommitment.score(risk[np.newaxis]) == [44.0]


@pytest.mark.parametrize(("request_millis", "limit_millis", "risk"), [(3000, 9000, 0.8333), (2000, 8000, 0.6667)])
def test_limit_risk_is_the_share_of_the_excess_above_capacity(
    request_millis: float, limit_millis: float, risk: float
) -> None:
    found = overcommitment.limit_risk(array(request_millis), array(limit_millis), array(4000))
    assert found[0] == pytest.approx(risk, abs=1e-4)


@given(limit=st.floats(0, 1), request=st.floats(0, 5))
def test_limits_within_the_node_are_no_risk(limit: float, request: float) -> None:
    assert overcommitment.limit_risk(array(request), array(limit), array(1.0)) == [0.0]


@given(mu=fraction, sigma=fraction, window=st.integers(1, 100))
def test_an_unsmoothed_deviation_always_fits_a_distribution(mu: float, sigma: float, window: int) -> None:
    unsmoothed = overcommitment.unsmoothed_sigma(array(mu), array(sigma), window)[0]
    assert 0 <= unsmoothed**2 <= 0.99 * mu * (1 - mu) + 1e-12


@given(mu=fraction, sigma=fraction, low=fraction, high=fraction)
def test_more_requests_never_make_the_load_riskier(mu: float, sigma: float, low: float, high: float) -> None:
    low, high = sorted((low, high))
    risks = [overcommitment.load_risk(array(mu), array(sigma), array(r), array(1.0))[0][0] for r in (low, high)]
    assert 0 <= risks[1] <= risks[0] + 1e-9 <= 1 + 1e-9


@given(mu=fraction, sigma=fraction, request=fraction, limit=st.floats(0, 3))
@example(mu=1.3e-156, sigma=1.3e-156, request=0.5, limit=0.0)
@example(mu=1e-6, sigma=1e-14, request=1e-6, limit=1e-6)
def test_the_condition_on_limits_never_raises_the_risk(mu: float, sigma: float, request: float, limit: float) -> None:
    unconditioned, _fit = overcommitment.load_risk(array(mu), array(sigma), array(request), array(1.0))
    assert 0 <= conditioned(mu, sigma, request, limit) <= unconditioned[0] + 1e-9


@pytest.mark.parametrize("sigma", [0.0, 5e-17, 1e-10, 1e-8, 2e-7])
def test_steady_usage_below_the_requests_is_no_risk_with_a_rounding_error_as_deviation(sigma: float) -> None:
    risk, _fit = overcommitment.load_risk(array(0.9), array(sigma), array(0.95), array(1.0))
    assert risk == [0.0]


def test_a_hot_node_with_best_effort_pods_is_a_risk_except_as_shipped() -> None:
    assert conditioned(0.9, 0.1, 0.0, 0.0) == pytest.approx(1.0)
    assert conditioned(0.9, 0.1, 0.0, 0.0, certain=True) == 0.0


def test_a_node_without_capacity_has_no_load_risk_and_full_limit_risk() -> None:
    load = overcommitment.conditioned_load_risk(
        array(0.5), array(0.1), array(0), array(0), array(0), no_limits_are_certain=True
    )
    assert load == [0.0]
    assert overcommitment.limit_risk(array(0), array(100), array(0)) == [1.0]
