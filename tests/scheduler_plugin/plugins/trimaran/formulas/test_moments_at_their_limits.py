"""Means and deviations at the ends of what utilization can have."""

import numpy as np
import pytest

from scheduler_plugin.plugins.trimaran.formulas import beta_distribution


def below(mean, deviation, threshold):
    found = beta_distribution.probability_below(np.array([mean]), np.array([deviation]), np.array([threshold]))
    return float(found.value[0])


def test_the_largest_variance_is_not_fitted_and_has_the_parameters_1_and_1():
    found = beta_distribution.match_moments(np.array([0.5, 0.5, 0.5]), np.array([0.5, 0.75, 0.2]))
    assert found.is_fitted.tolist() == [False, False, False], "a variance of 0.25, of 0.5, and one below 0"
    assert (found.alpha.tolist(), found.beta.tolist()) == ([1.0] * 3, [1.0] * 3)


def test_the_largest_variance_is_0_for_a_mean_outside_0_and_1():
    means = np.array([-0.5, 0.0, 0.25, 1.0, 1.5])
    assert beta_distribution.largest_variance(means).tolist() == [0.0, 0.0, 0.1875, 0.0, 0.0]


@pytest.mark.parametrize(
    ("mean", "deviation", "threshold", "probability"),
    [
        (0.0, 0.3, 0.5, 1.0),
        (0.5, 0.0, 0.5, 1.0),
        (0.6, 0.0, 0.5, 0.0),
        (1.0, 0.0, 0.5, 0.0),
        (0.5, 0.6, 0.9, 0.0),
    ],
    ids=["idle", "on the threshold", "above it", "full", "without a distribution"],
)
def test_a_mean_without_a_fitting_distribution_gives_0_or_1(mean, deviation, threshold, probability):
    assert below(mean, deviation, threshold) == probability
