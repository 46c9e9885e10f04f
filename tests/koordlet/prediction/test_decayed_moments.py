"""Decayed mean and deviation against the two-pass sums over all samples in exact fractions."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from koordlet.prediction import buckets
from koordlet.prediction.decayed_moments import DecayedMoments
from koordlet.prediction.histogram_bank import HistogramBank
from tests.koordlet.prediction.naive_histogram import NaiveHistogram

ROW = np.array([0], np.intp)


def add(moments, value, weight=1.0):
    moments.add(ROW, np.array([value]), np.array([weight]))


def test_mean_and_population_deviation_match_numbers_computed_by_hand():
    moments = DecayedMoments(1)
    for value in (2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0):
        add(moments, value)
    assert moments.mean(ROW)[0] == 5.0
    assert moments.stdev(ROW)[0] == pytest.approx(2.0)  # that of a sample would be 2.138


def test_a_weight_of_three_is_three_samples():
    weighted, repeated = DecayedMoments(1), DecayedMoments(1)
    add(weighted, 1.0, 3.0)
    add(weighted, 9.0, 1.0)
    for value in (1.0, 1.0, 1.0, 9.0):
        add(repeated, value)
    assert weighted.mean(ROW)[0] == pytest.approx(repeated.mean(ROW)[0])
    assert weighted.stdev(ROW)[0] == pytest.approx(repeated.stdev(ROW)[0])


def test_without_samples_there_is_neither_mean_nor_deviation():
    assert np.isnan([DecayedMoments(1).mean(ROW)[0], DecayedMoments(1).stdev(ROW)[0]]).all()


def test_a_sample_too_old_to_weigh_anything_changes_nothing():
    moments = DecayedMoments(1)
    add(moments, 7.0, 0.0)
    assert np.isnan(moments.mean(ROW)[0])
    add(moments, 3.0, 1.0)
    assert (moments.mean(ROW)[0], moments.stdev(ROW)[0]) == (3.0, 0.0)


@given(st.lists(st.tuples(st.floats(0, 100), st.integers(-30, 0)), min_size=1, max_size=40))
def test_decayed_moments_are_those_of_all_samples_in_exact_arithmetic(samples):
    """Times are whole half-lives, so that each weight is an exact power of two."""
    half_life = 3600.0
    bank, naive = HistogramBank(buckets.CPU_CORES, half_life), NaiveHistogram(0.001, 1.05, 3, half_life)
    for value, half_lives in samples:
        bank.add(ROW, np.array([value]), half_lives * half_life)
        naive.add(value, half_lives * half_life)
    mean, variance = naive.mean_and_variance(0.0)
    assert bank.mean(ROW)[0] == pytest.approx(mean, rel=1e-12, abs=1e-12)
    assert bank.stdev(ROW)[0] == pytest.approx(math.sqrt(variance), rel=1e-7, abs=1e-6)


def test_the_deviation_of_a_steady_series_is_not_blurred_by_bucket_width():
    bank = HistogramBank(buckets.MEMORY_BYTES, 86_400.0)
    values = [3.0e9 + 1e3 * (-1) ** step for step in range(1000)]
    for step, value in enumerate(values):
        bank.add(ROW, np.array([value]), step * 30.0)
    assert bank.stdev(ROW)[0] == pytest.approx(1e3, rel=1e-6)
