"""Tests of the histogram of scores."""

import dataclasses
import math

import numpy as np
import pytest

from koordlet.prediction.calibration.scores import CPU_SCALE, MEMORY_SCALE, ScoreHistogram


def filled(scale, values, horizon_seconds=3600.0):
    histogram = ScoreHistogram(scale, horizon_seconds)
    for number, value in enumerate(values):
        histogram.add(value, 3600.0 * number)
    return histogram


def test_a_score_is_rounded_up_to_the_grid():
    assert filled(CPU_SCALE, [0.25] * 100).multiplier(0.01) == pytest.approx(0.25 * 1.04)
    assert filled(CPU_SCALE, [0.2501] * 100).multiplier(0.01) == pytest.approx(0.25 * 1.015 * 1.04)


def test_the_correction_of_memory_is_the_distance_from_the_median():
    histogram = filled(MEMORY_SCALE, [0.1] * 99 + [0.3])
    assert histogram.multiplier(0.005) == pytest.approx(0.3 + (0.3 - 0.1) * 0.04)


def test_the_correction_grows_with_the_horizon():
    assert filled(CPU_SCALE, [1.0] * 50, 10_800.0).multiplier(0.01) > filled(CPU_SCALE, [1.0] * 50).multiplier(0.01)


def test_a_score_of_a_half_life_ago_counts_half():
    histogram = ScoreHistogram(CPU_SCALE, 3600.0)
    histogram.add(3.0, 0.0)
    histogram.add(1.0, CPU_SCALE.half_life_seconds)
    weights = histogram.export().weights
    assert sorted(weights[weights > 0]) == [0.5, 1.0]


def test_a_score_beyond_the_grid_is_in_its_last_cell():
    assert filled(CPU_SCALE, [100.0] * 4000).multiplier(0.01) == pytest.approx(CPU_SCALE.grid[-1], rel=2e-3)


def test_without_scores_there_is_no_multiplier():
    with pytest.raises(ValueError, match="without scores"):
        ScoreHistogram(CPU_SCALE, 3600.0).multiplier(0.01)


@pytest.mark.parametrize("scale", [CPU_SCALE, MEMORY_SCALE])
def test_what_was_exported_is_restored(scale):
    histogram = filled(scale, [0.5, 0.6, 0.7])
    restored = ScoreHistogram(scale, 3600.0)
    assert restored.restore(histogram.export())
    assert restored.multiplier(0.01) == histogram.multiplier(0.01)


@pytest.mark.parametrize(
    "change",
    [
        {"horizon_seconds": 900.0},
        {"weights": np.ones(3)},
        {"weights": np.full(173, math.nan)},
        {"weights": np.full(173, -1.0)},
        {"labels": -1},
        {"labels": 0},
        {"newest_seconds": math.inf},
    ],
)
def test_scores_that_cannot_be_used_are_not_restored(change):
    state = dataclasses.replace(filled(CPU_SCALE, [0.5, 0.6]).export(), **change)
    restored = ScoreHistogram(CPU_SCALE, 3600.0)
    assert not restored.restore(state)
    assert restored.labels == 0
