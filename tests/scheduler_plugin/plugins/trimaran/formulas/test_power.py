from __future__ import annotations

import numpy as np
import pytest

from scheduler_plugin.plugins.trimaran.formulas import power


def test_the_jump_is_the_difference_of_the_power_curve() -> None:
    def watts(percent: float) -> float:
        return float(471.74 - 91.5 * np.exp(-0.0719 * percent))

    k1, k2 = np.array([-91.5]), np.array([-0.0719])
    jump = power.jump_watts(np.array([10.0]), np.array([30.0]), k1, k2)[0]
    assert jump == pytest.approx(watts(30) - watts(10))


def test_the_smallest_jump_is_best_and_an_unknown_node_worst() -> None:
    scores = power.score(np.array([2.0, 10.0, 4.0, 0.0]), np.array([True, True, True, False]))
    assert scores.tolist() == [100.0, 0.0, 75.0, 0.0]


def test_equal_jumps_score_alike() -> None:
    assert power.score(np.array([3.0, 3.0]), np.array([True, True])).tolist() == [100.0, 100.0]


def test_without_candidates_there_are_no_scores() -> None:
    assert (
        power.shipped_scores(np.array([])).tolist()
        == power.score(np.array([]), np.array([], dtype=bool)).tolist()
        == []
    )


def test_shipped_scores_prefer_an_unknown_node() -> None:
    assert power.shipped_scores(np.array([2e15, 10e15, 0.0])).tolist() == [80.0, 0.0, 100.0]
