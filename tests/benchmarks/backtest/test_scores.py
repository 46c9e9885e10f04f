"""Scores of two machines and four predictions computed by hand."""

import math

import numpy as np
import pytest

from benchmarks.backtest import scores

pytestmark = pytest.mark.slow

ORACLE = np.array([[4.0, 4.0, 4.0, 4.0], [8.0, 8.0, 8.0, 8.0]])
REQUESTS = np.array([[10.0, 10.0, 10.0, 10.0], [20.0, 20.0, 20.0, 20.0]])


def score(peaks, oracle=ORACLE, requests=REQUESTS, interval_hours=1.0):
    return scores.score(np.array(peaks, float), oracle, requests, interval_hours)


def test_two_machines_by_hand():
    """The first is short by a quarter once and a half once, the second never: 2 of 8, 0.75 in all."""
    found = score([[3, 4, 2, 5], [8, 8, 9, 8]])
    assert (found.violation_rate, found.violation_rate_p50) == (0.25, 0.25)
    assert (found.violation_rate_p90, found.violation_rate_p99) == pytest.approx((0.45, 0.495))
    assert found.severity == pytest.approx(0.75 / 8)
    assert found.shortfall == pytest.approx(0.375)
    assert found.saved_cores == pytest.approx(120 / 4 - (14 + 33) / 4)
    assert found.savings == pytest.approx(1 - (14 + 33) / 120)


def test_violations_in_a_row_are_one_episode_of_each_machine():
    peaks = [[3, 3, 4, 3], [7, 7, 7, 7]]  # two episodes and one, in two machines of four hours
    assert score(peaks).episodes_a_machine_week == pytest.approx(3 / (8 / 168))
    assert score(peaks, interval_hours=6.0).episodes_a_machine_week == pytest.approx(3 / (48 / 168))


def test_a_rounding_difference_is_not_a_violation():
    assert score(ORACLE - 1e-12).violation_rate == 0
    assert score(ORACLE - 1e-6).violation_rate == 1


def test_a_machine_that_needs_nothing_is_never_short():
    found = score(np.zeros((1, 2)), np.zeros((1, 2)), np.ones((1, 2)))
    assert (found.violation_rate, found.severity, found.savings) == (0, 0, 1)


def test_without_a_violation_there_is_no_shortfall_rather_than_zero():
    assert math.isnan(score(ORACLE).shortfall)
