"""What is left on offer on a node whose pods are replaced, beside the same node where nothing happens."""

import functools

import pytest

from tests.koordlet.prediction import churn

SCENARIOS = {
    "8 h, each": {"calibrated": 0.85, "n-sigma-v2": 0.75},
    "jobs of 10 min": {"calibrated": 0.85, "n-sigma-v2": 0.75},
    "4 h": {"calibrated": 0.78, "n-sigma-v2": 0.75},
}
"""Scenario -> least share of the offer that is left, by predictor."""

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


@functools.cache
def undisturbed():
    return churn.simulate("nothing")


def shares(outcome, name):
    """Return the shares of CPU and of memory that are left on offer."""
    return [left / whole for left, whole in zip(outcome.offer[name], undisturbed().offer[name], strict=True)]


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_most_of_the_offer_is_left_where_pods_are_replaced(scenario):
    outcome = churn.simulate(scenario)
    for name, least in SCENARIOS[scenario].items():
        assert min(shares(outcome, name)) >= least, (name, outcome)
    assert outcome.short["n-sigma-v2"] == (0.0, 0.0)
    assert outcome.short["calibrated"][0] <= 1.2


def test_the_offer_of_a_node_that_lives_for_six_hours_is_left_to_the_default():
    assert min(shares(churn.simulate("spot node, 6 h"), "n-sigma-v2")) >= 0.7


def test_without_the_history_the_default_loses_what_cold_pods_request():
    with_it, without = (churn.simulate("8 h, each", history=history) for history in (True, False))
    assert without.offer["n-sigma-v2"][0] < 0.9 * with_it.offer["n-sigma-v2"][0]
