"""Distributions with parameters of a thousand and more, and deviations near the smallest that counts."""

import fractions
import math

import numpy as np
import pytest

from scheduler_plugin.plugins.trimaran.formulas import beta_distribution
from scheduler_plugin.plugins.trimaran.formulas.beta_distribution import Fit


def exact(a, b, x):
    """Compute I_x(a, b) for whole a and b: the probability of at least a successes in a + b - 1 trials."""
    trials, missed = a + b - 1, x.denominator - x.numerator
    term = math.comb(trials, a) * x.numerator**a * missed ** (trials - a)
    total = 0
    for successes in range(a, trials + 1):
        total += term
        term = term * (trials - successes) * x.numerator // ((successes + 1) * missed)
    return float(fractions.Fraction(total, x.denominator**trials))


@pytest.mark.parametrize(("a", "b"), [(1001, 1001), (1001, 3000), (3000, 2000), (20, 3000)])
@pytest.mark.parametrize("deviations", [-4.0, -2.0, -0.5, -0.01, 0.01, 0.5, 2.0, 4.0])
def test_large_whole_parameters_give_the_binomial_sum_to_the_last_digits(a, b, deviations):
    mean, scale = a / (a + b), a + b
    x = fractions.Fraction(round(2**16 * (mean + deviations * math.sqrt(mean * (1 - mean) / (scale + 1)))), 2**16)
    found = beta_distribution.distribution(Fit(np.array([a]), np.array([b]), np.array([True])), np.array([float(x)]))
    assert float(found[0]) == pytest.approx(exact(a, b, x), rel=2e-13)


def test_the_smallest_deviation_that_counts_is_a_ten_millionth_of_capacity():
    mu, threshold = np.array([0.5, 0.5]), np.array([0.5, 0.5])
    found = beta_distribution.probability_below(mu, np.array([1e-7, 0.99e-7]), threshold)
    assert found.value.tolist() == [pytest.approx(0.5, abs=1e-3), 1.0]
    assert found.fit.is_fitted.tolist() == [True, False]


def test_no_variance_is_a_possible_one():
    assert beta_distribution.match_moments(np.array([0.5]), np.array([0.25])).is_fitted.tolist() == [True]
