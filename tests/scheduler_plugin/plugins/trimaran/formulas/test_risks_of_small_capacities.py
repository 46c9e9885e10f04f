"""Formulas at the limits of capacity: nodes with one unit, without any, and with more usage than they have."""

import numpy as np
import pytest

from scheduler_plugin.plugins.trimaran import fallback
from scheduler_plugin.plugins.trimaran.formulas import load_variation, overcommitment

ONE = np.array([1.0])
NONE = np.array([0.0])


def test_the_load_risk_of_a_node_with_one_unit_is_that_of_any_other_with_the_same_fractions():
    mu, sigma, request = np.array([0.5]), np.array([0.1]), np.array([0.5])
    small, _fit = overcommitment.load_risk(mu, sigma, request, ONE)
    large, _fit = overcommitment.load_risk(mu, sigma, request * 1000, ONE * 1000)
    assert small == pytest.approx(large)
    assert small == pytest.approx(0.5)  # a symmetric distribution: half of it is above the requests


def test_without_capacity_there_is_no_load_risk():
    risk, _fit = overcommitment.load_risk(np.array([0.5]), np.array([0.1]), NONE, NONE)
    assert risk.tolist() == [0.0]


@pytest.mark.parametrize("is_shipped", [True, False])
def test_the_conditioned_risk_depends_on_fractions_alone(is_shipped):
    def risk(scale):
        mu, sigma = np.array([0.4]), np.array([0.1])
        return overcommitment.conditioned_load_risk(
            mu, sigma, 0.4 * scale, 0.5 * scale, scale, no_limits_are_certain=is_shipped
        )

    assert risk(ONE) == pytest.approx(risk(1000.0 * ONE))
    assert 0.0 < risk(ONE)[0] < 0.5


def test_utilization_counts_up_to_the_capacity():
    of = load_variation.fractions(np.array([3.0]), np.array([8.0]), np.array([2.0]), np.array([4.0]))
    assert (of.mu.tolist(), of.sigma.tolist()) == ([1.0], [1.0])
    of = load_variation.fractions(ONE, ONE, 0.0, NONE)
    assert (of.mu.tolist(), of.sigma.tolist()) == ([0.0], [0.0])
    of = load_variation.fractions(ONE / 4, ONE / 2, 0.0, ONE)
    assert (of.mu.tolist(), of.sigma.tolist()) == ([0.25], [0.5])


def test_best_fit_counts_the_fullest_resource_of_nodes_of_any_size():
    requested = np.array([[1.0, 1.0, 0.5, 2.0], [1.0, 1.0, 0.0, 0.0]])
    allocatable = np.array([[1.0, 4.0, 1.0, 1.0], [2.0, 2.0, 1.0, 1.0]])
    assert fallback.best_fit(requested, allocatable).tolist() == [100.0, 50.0, 50.0, 0.0]
    assert fallback.best_fit(np.zeros((2, 1)), np.array([[1.0], [0.0]])).tolist() == [0.0]
