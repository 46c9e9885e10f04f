"""Tests against exact binomial sums for whole parameters, symmetry, and the given moments."""

from __future__ import annotations

import fractions
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler_plugin.plugins.trimaran import beta_distribution
from scheduler_plugin.plugins.trimaran.beta_distribution import Fit

inside = st.floats(0.001, 0.999)


def fit(alpha: float, beta: float) -> Fit:
    return Fit(np.array([alpha]), np.array([beta]), np.array([True]))


def below(alpha: float, beta: float, x: float) -> float:
    return float(beta_distribution.distribution(fit(alpha, beta), np.array([x]))[0])


def exact(a: int, b: int, x: fractions.Fraction) -> float:
    """Compute I_x(a, b) for whole a and b: the probability of at least a successes in a + b - 1 trials."""
    trials = a + b - 1
    return float(sum(math.comb(trials, k) * x**k * (1 - x) ** (trials - k) for k in range(a, trials + 1)))


@given(a=st.integers(1, 40), b=st.integers(1, 40), x=st.integers(1, 99))
def test_whole_parameters_give_the_binomial_sum(a: int, b: int, x: int) -> None:
    assert below(a, b, x / 100) == pytest.approx(exact(a, b, fractions.Fraction(x, 100)), rel=1e-9, abs=1e-13)


def test_a_narrow_distribution_is_nearly_normal() -> None:
    mean, deviation = 0.4, 1e-4
    found = beta_distribution.match_moments(np.array([mean]), np.array([deviation**2 + mean**2]))
    for distance in (-2.0, -1.0, 0.0, 1.0, 2.0):
        normal = 0.5 * math.erfc(-distance / math.sqrt(2.0))
        value = beta_distribution.distribution(found, np.array([mean + distance * deviation]))[0]
        assert value == pytest.approx(normal, abs=1e-3)


@given(mean=inside, share=st.floats(0.001, 0.98))
def test_the_fitted_distribution_has_the_given_moments(mean: float, share: float) -> None:
    variance = share * mean * (1 - mean)
    found = beta_distribution.match_moments(np.array([mean]), np.array([variance + mean * mean]))
    alpha, beta = found.alpha[0], found.beta[0]
    assert found.is_fitted[0]
    assert alpha / (alpha + beta) == pytest.approx(mean, rel=1e-9)
    assert alpha * beta / ((alpha + beta) ** 2 * (alpha + beta + 1)) == pytest.approx(variance, rel=1e-6)


@pytest.mark.parametrize(
    ("alpha", "beta", "x"), [(2, 2, -0.1), (2, 2, 1.1), (-1, 1, 0.5), (0, 1, 0.5), (2, 2, math.nan)]
)
def test_invalid_parameters_and_values_outside_give_0(alpha: float, beta: float, x: float) -> None:
    assert below(alpha, beta, x) == 0.0
