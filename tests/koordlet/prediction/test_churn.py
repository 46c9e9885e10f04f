"""What is left on offer on a node whose pods are replaced, beside the same node where nothing happens."""

import functools

import pytest

from tests.koordlet.prediction import churn

LEAST = {"calibrated": 0.85, "n-sigma-v2": 0.75}
"""Share of the offer that is left, by predictor."""
SHORT = ["day", "4 h"]
LONG = ["week", "day, each", "8 h, each", "4 h, one", "moved every 6 h", "jobs of 10 min", "twice from 12 to 18 h"]

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

simulate = functools.cache(churn.simulate)


def shares(outcome, name):
    """Return the shares of CPU and of memory that are left on offer."""
    return [left / whole for left, whole in zip(outcome.offer[name], simulate("nothing").offer[name], strict=True)]


@pytest.mark.parametrize("scenario", [*SHORT, *(pytest.param(name, marks=pytest.mark.long) for name in LONG)])
def test_most_of_the_offer_is_left_where_pods_are_replaced(scenario):
    outcome = simulate(scenario)
    for name, least in LEAST.items():
        assert min(shares(outcome, name)) >= least, (name, outcome)
    assert outcome.short["n-sigma-v2"] == (0.0, 0.0)
    assert outcome.short["calibrated"][0] <= 1.2


def test_most_of_the_offer_is_left_on_a_node_that_lives_for_six_hours():
    """It has at most five scores of its own, and those of the nodes before it."""
    before = simulate("spot node, 6 h", days=3).prior
    outcome = simulate("spot node, 6 h", days=3, prior=before)
    for name in LEAST:
        assert min(shares(outcome, name)) >= 0.7, (name, outcome)


@pytest.mark.long
def test_without_the_history_the_default_loses_what_cold_pods_request():
    with_it, without = (simulate("8 h, each"), simulate("8 h, each", history=False))
    assert without.offer["n-sigma-v2"][0] < 0.9 * with_it.offer["n-sigma-v2"][0]
