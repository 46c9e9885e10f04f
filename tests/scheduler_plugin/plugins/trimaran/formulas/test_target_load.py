from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler_plugin.plugins.trimaran.formulas import target_load


@pytest.mark.parametrize(
    ("percent", "score"),
    [(0, 40), (10, 55), (20, 70), (40, 100), (40.001, 40), (50, 33), (70, 20), (99, 1), (100, 0), (130, 0)],
)
def test_scores_at_a_target_of_40_are_the_published_ones(percent: float, score: float) -> None:
    assert target_load.score(np.array([float(percent)]), 40.0)[0] == score


@given(percent=st.floats(0, 1000), target=st.integers(1, 100))
def test_scores_stay_within_0_and_100(percent: float, target: int) -> None:
    assert 0 <= target_load.score(np.array([percent]), float(target))[0] <= 100


@given(target=st.integers(1, 99), low=st.floats(0, 1), high=st.floats(0, 1))
def test_packs_below_the_target_and_spreads_above(target: int, low: float, high: float) -> None:
    low, high = sorted((low, high))
    below = target_load.score(np.array([low, high]) * target, float(target))
    above = target_load.score(target + 1e-9 + np.array([low, high]) * (100 - target - 1e-9), float(target))
    assert below[0] <= below[1]
    assert above[0] >= above[1]


def test_utilization_includes_the_pod_and_recently_placed_pods() -> None:
    percent = target_load.utilization_percent(np.array([400.0]), 500.0, np.array([300.0]), np.array([4000.0]))
    assert percent == pytest.approx([30.0])


def test_utilization_of_a_node_without_cpu_is_0() -> None:
    assert target_load.utilization_percent(np.array([10.0]), 500.0, np.array([0.0]), np.array([0.0])) == [0.0]
