"""The grids of scores, how their weights decay, and which share of them a target leaves above its quantile."""

import numpy as np
import pytest

from koordlet.prediction.calibration.scores import CPU_SCALE, MEMORY_SCALE, ScoreHistogram

DAY = 86_400.0
SCALES = pytest.mark.parametrize("scale", [CPU_SCALE, MEMORY_SCALE], ids=["cpu", "memory"])


def histogram_of(scale, low=0, high=0):
    """Return a histogram of scores of 0.25 and of 1, all of the same second."""
    histogram = ScoreHistogram(scale, 900.0)
    for score in [0.25] * low + [1.0] * high:
        histogram.add(score, DAY)
    return histogram


def weights_of(histogram):
    weights = histogram.export().weights
    return weights[weights > 0].tolist()


def test_the_grids_are_those_that_checkpoints_have():
    """173 cells from 0.25 on, each 1.5 % above the one before, and 801 from -1 to 1."""
    assert CPU_SCALE.grid.shape == (173,)
    assert CPU_SCALE.grid[[0, 1]].tolist() == [0.25, 0.25 * 1.015]
    assert MEMORY_SCALE.grid.shape == (801,)
    assert MEMORY_SCALE.grid[[0, 400, 800]].tolist() == [-1.0, 0.0, 1.0]


@pytest.mark.parametrize(("scale", "days"), [(CPU_SCALE, 7), (MEMORY_SCALE, 30)], ids=["cpu", "memory"])
def test_a_score_counts_half_after_a_week_of_cpu_and_a_month_of_memory(scale, days):
    histogram = histogram_of(scale, low=1)
    histogram.add(1.0, DAY + days * DAY)
    assert weights_of(histogram) == [0.5, 1.0]


@SCALES
def test_a_clock_that_goes_back_changes_no_weight(scale):
    histogram = histogram_of(scale, low=1)
    histogram.add(1.0, 0.0)
    assert weights_of(histogram) == [1.0, 1.0]


@SCALES
def test_scores_of_one_second_have_one_weight(scale):
    histogram = histogram_of(scale, 3, 2)
    assert histogram.labels == 5
    assert weights_of(histogram) == [3.0, 2.0]


@SCALES
@pytest.mark.parametrize("seconds", [-3 * DAY, 40 * DAY])
def test_a_step_of_the_clock_ages_no_score(scale, seconds):
    histogram = histogram_of(scale, low=1)
    histogram.shift_clock(seconds)
    histogram.add(1.0, DAY + seconds)
    assert weights_of(histogram) == [1.0, 1.0]
    assert histogram.export().newest_seconds == DAY + seconds


@pytest.mark.parametrize(("low", "high", "expected"), [(90, 10, 0.25), (89, 11, 1.0), (9, 1, 0.25)])
def test_a_quantile_leaves_four_fifths_of_the_target_above_it(low, high, expected):
    """Of a target of 12.5 % that is 10 %; the distance from the median is divided by the number of scores."""
    histogram = histogram_of(MEMORY_SCALE, low, high)
    correction = (expected - 0.25) / (low + high)
    assert histogram.multiplier(0.125) == pytest.approx(expected + correction, rel=1e-9)


@SCALES
def test_only_scores_from_the_quantile_on_reach_it(scale):
    histogram = histogram_of(scale, 50, 50)
    assert histogram.is_reached_by(1.0, 0.125)
    assert histogram.is_reached_by(2.0, 0.125)
    assert not histogram.is_reached_by(0.9, 0.125)
    assert histogram_of(scale, high=1).is_reached_by(1.0, 0.125)


@SCALES
@pytest.mark.parametrize("count", [0, 1])
def test_no_score_and_one_score_are_restored(scale, count):
    restored = ScoreHistogram(scale, 900.0)
    assert restored.restore(histogram_of(scale, low=count).export())
    assert restored.labels == count
    assert not weights_of(restored) or np.sum(weights_of(restored)) == 1.0
