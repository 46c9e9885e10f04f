"""Scores of `koordctl backtest` at their limits: equal amounts, machines without a pod, the oracle at the end."""

import numpy as np
import pytest

from koordctl.backtest import oracle, scores
from koordctl.backtest.oracle import Stays
from koordctl.backtest.placement import Pod


def test_a_peak_that_is_met_is_no_violation_and_rounding_is_none():
    peaks = np.array([[1.0, 1.0 - 1e-10, 1.0 - 1e-6, 2.0]])
    found = scores.score(peaks, np.ones((1, 4)), np.full((1, 4), 4.0), 1.0)
    assert found.violation_rate == pytest.approx(0.25)
    assert found.severity == pytest.approx(1e-6 / 4)
    assert found.shortfall == pytest.approx(1e-6)


def test_savings_are_a_mean_over_the_times_with_a_request_of_the_whole_cell():
    peaks = np.array([[1.0, 0.0, 3.0], [1.0, 0.0, 0.0]])
    requests = np.array([[4.0, 0.0, 4.0], [4.0, 0.0, 0.0]])
    found = scores.score(peaks, np.zeros_like(peaks), requests, 1.0)
    assert found.savings == pytest.approx(((1 - 2 / 8) + (1 - 3 / 4)) / 2)
    assert found.saved_cores == pytest.approx((6 + 0 + 1) / 3)
    assert np.isnan(found.shortfall)


def test_an_episode_at_the_begin_and_one_at_the_end_count_once_each():
    peaks = np.array([[0.0, 0.0, 1.0, 0.0]])
    found = scores.score(peaks, np.ones((1, 4)), np.full((1, 4), 4.0), 42.0)  # four times 42 hours are a week
    assert found.episodes_a_machine_week == pytest.approx(2)


def test_a_pod_runs_from_its_start_to_before_its_end():
    stays = Stays([Pod(1, 0, 3), Pod(0, 2, 5), Pod(1, 3, 4)])
    assert [stays.running_at(step).tolist() for step in range(6)] == [[0], [0], [0, 1], [1, 2], [1], []]


def test_usage_after_a_step_is_that_of_the_pods_that_run_then_and_nothing_after_their_end():
    used = np.array([[1.0, 2.0, 3.0, 4.0, 5.0], [10.0, 20.0, 30.0, 40.0, 50.0]])
    stays = Stays([Pod(1, 0, 3), Pod(0, 0, 5)])
    pods = stays.running_at(1)
    assert stays.usage_after(used, pods, 1, 2).tolist() == [[30.0, 0.0], [3.0, 4.0]]
    assert stays.usage_after(used, pods, 1, 9).tolist() == [[30.0, 0.0, 0.0], [3.0, 4.0, 5.0]]
    future = stays.usage_after(used, pods, 1, 2)
    assert oracle.peak(future, np.array([100.0, 100.0])) == 33
    assert oracle.peak(future, np.array([5.0, 100.0])) == 8
    assert oracle.peak(stays.usage_after(used, pods, 4, 2), np.array([5.0, 6.0])) == 11
