from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler_plugin.plugins.trimaran.formulas import load_variation

percent = st.floats(0, 150)


def shipped(mean: float, deviation: float, margin: float = 1.0, sensitivity: float = 1.0) -> float:
    capacity = np.array([[100.0]])
    used = [np.clip(load_variation.used(np.array([[value]]), capacity), 0.0, 100.0) for value in (mean, deviation)]
    of = load_variation.fractions(used[0], used[1], 0.0, capacity)
    return float(load_variation.shipped_resource_scores(of, capacity, margin, sensitivity)[0, 0])


@given(mean=percent, other=percent, deviation=percent, margin=st.floats(0, 5), sensitivity=st.floats(0, 5))
def test_more_load_never_scores_higher(
    mean: float, other: float, deviation: float, margin: float, sensitivity: float
) -> None:
    low, high = sorted((mean, other))
    assert shipped(low, deviation, margin, sensitivity) >= shipped(high, deviation, margin, sensitivity)
    assert shipped(deviation, low, margin, sensitivity) >= shipped(deviation, high, margin, sensitivity)
    assert 0 <= shipped(mean, deviation, margin, sensitivity) <= 100


def test_a_node_at_full_load_without_deviation_scores_50() -> None:
    assert shipped(100, 0) == 50.0


@pytest.mark.parametrize(("margin", "sensitivity", "score"), [(1, 2, 49.0), (2, 1, 63.0), (-1, 1, 80.0)])
def test_margin_multiplies_the_deviation_and_sensitivity_is_its_root(
    margin: float, sensitivity: float, score: float
) -> None:
    # 40 % mean; deviation 0.17 with 1/1 gives (1 - 0.57/2) * 100
    deviation = {(1, 2): 38.44, (2, 1): 17.0, (-1, 1): 17.0}[(margin, sensitivity)]
    assert shipped(40, deviation, margin, sensitivity) == pytest.approx(score)


def test_the_worst_measured_resource_decides() -> None:
    scores = np.array([[80.0, 80.0, 80.0, 80.0], [57.5, 10.0, 10.0, 99.0]])
    is_measured = np.array([[True, True, False, True], [True, False, False, True]])
    assert load_variation.score(scores, is_measured).tolist() == [58.0, 80.0, 0.0, 80.0]


@pytest.mark.parametrize("margin", [1, 2, 3])
def test_the_kep_leaves_room_for_margin_deviations(margin: int) -> None:
    of = load_variation.Fractions(np.array([[0.3]]), np.array([[0.1]]))
    score = load_variation.designed_resource_scores(of, np.array([[0.2]]), float(margin))
    assert score.item() == pytest.approx(100.0 * (1.0 - 0.3 - 0.2 - margin * 0.1))


@pytest.mark.parametrize("margin", [0.0, 1e-320, 1.0, 1e308])
@pytest.mark.parametrize("sensitivity", [0.0, 5e-324, 1e-300, 0.5, 2.0, 1e308])
def test_extreme_arguments_give_scores_from_0_to_100(margin: float, sensitivity: float) -> None:
    for mean in (0.0, 5e-324, 50.0, 100.0):
        for deviation in (0.0, 5e-324, 1e-308, 50.0, 100.0):
            assert 0.0 <= shipped(mean, deviation, margin, sensitivity) <= 100.0


def test_only_without_capacity_is_a_score_zero():
    of = load_variation.Fractions(np.full(3, 0.5), np.zeros(3))
    scores = load_variation.shipped_resource_scores(of, np.array([0.0, 0.5, 1.0]), 1.0, 1.0)
    assert scores.tolist() == [0.0, 75.0, 75.0]
