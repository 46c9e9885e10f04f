"""Aggregates compared with plain Python over lists."""

from __future__ import annotations

import math
import statistics

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from koordlet.metric_cache import aggregation
from koordlet.metric_cache.aggregation import TimeWindow, UsageStatistic, WindowSamples
from koordlet.samples import NODE, SYSTEM

NAN = math.nan
RATIOS = [0.5, 0.9, 0.95, 0.99]

# Series with holes: any number of samples, any of them missing.
series = arrays.arrays(
    np.float64,
    st.tuples(st.integers(1, 5), st.integers(0, 60)),
    elements=st.one_of(st.just(NAN), st.floats(0, 2**43, width=32)),
)


def present(row):
    return [float(value) for value in row if not math.isnan(value)]


def percentile_by_hand(values, ratio):
    """Compute the rule step by step: 32-bit product, truncated, one less, at least zero."""
    if not values:
        return NAN
    product = float(np.float32(len(values)) * np.float32(ratio))
    return sorted(values)[max(int(product) - 1, 0)]


def same(found, expected):
    return found == pytest.approx(expected, rel=1e-9, nan_ok=True)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([800, 100, 200, 600, 700, 0, 500, 400, 300], [300, 700, 700, 700]),
        ([1, 2], [1, 1, 1, 1]),
        (range(1, 11), [5, 9, 9, 9]),
        (range(1, 301), [150, 270, 285, 297]),
        ([7], [7, 7, 7, 7]),
    ],
)
def test_percentiles_are_samples_at_the_index_that_koordinator_takes(values, expected):
    assert aggregation.percentiles(np.array(values, float), RATIOS).tolist() == expected


def test_the_product_of_index_is_rounded_to_32_bits_before_it_is_cut():
    # 29 % of 100 is just below 29 in 64 bits and 29 in 32 bits.
    assert aggregation.percentiles(np.arange(1.0, 101.0), [0.29]).tolist() == [29.0]


@given(values=series)
def test_percentiles_of_many_series_are_those_of_each_by_hand(values):
    found = aggregation.percentiles(values, RATIOS)
    assert found.shape == (len(RATIOS), len(values))
    for row, column in zip(values, found.T, strict=True):
        assert same(column.tolist(), [percentile_by_hand(present(row), ratio) for ratio in RATIOS])


@given(values=series)
def test_the_other_aggregates_are_those_of_plain_lists(values):
    for index, row in enumerate(map(present, values)):
        assert aggregation.count(values)[index] == len(row)
        assert same(aggregation.average(values)[index], statistics.fmean(row) if row else NAN)
        deviation = statistics.pstdev(row) if row else NAN
        assert aggregation.standard_deviation(values)[index] == pytest.approx(
            deviation, rel=1e-6, abs=1e-6 * max(row, default=0), nan_ok=True
        )


@given(values=series, data=st.data())
def test_a_span_runs_from_the_oldest_sample_to_the_newest(values, data):
    size = values.shape[-1]
    stamps = data.draw(arrays.arrays(np.float64, size, elements=st.integers(0, 50).map(float)))
    spans = aggregation.span_seconds(values, stamps)
    for index, row in enumerate(values):
        seen = [stamp for stamp, value in zip(stamps, row, strict=True) if value >= 0]
        assert spans[index] == (max(seen) - min(seen) if seen else 0.0)


def test_32_bit_samples_are_summed_in_64_bits():
    values = np.full(1800, 16_777_217 * 64, np.float32)
    assert aggregation.average(values) == float(values[0])


@pytest.mark.parametrize(
    ("window", "span", "cold"),
    [(600, 300, False), (600, 299.9, True), (600, 0, True), (300, 299, False), (1800, 899, True)],
)
def test_samples_that_span_strictly_less_than_half_the_window_are_cold(window, span, cold):
    assert aggregation.is_cold(span, window) is cold


def window_samples(cpu, memory, at, seconds=10.0):
    """Return samples of NODE and SYSTEM; `cpu` and `memory` are [series, sample]."""
    values = np.array([cpu, memory], np.float32)
    return WindowSamples(TimeWindow(100.0, seconds), (NODE, SYSTEM), np.array(at, float), values)


def test_a_series_that_began_late_in_the_window_is_cold_while_others_are_not():
    samples = window_samples([[1, 2, 3], [NAN, NAN, 8]], [[1, 2, 3], [NAN, NAN, 8]], [90, 95, 100])
    found = aggregation.aggregate(samples, [UsageStatistic.AVG])
    assert (found.is_cold(NODE), found.is_cold(SYSTEM)) == (False, True)


def test_no_samples_are_no_usage_and_cold():
    samples = window_samples([[], []], [[], []], [])
    found = aggregation.aggregate(samples, list(UsageStatistic))
    usage = {statistic: found.usage(statistic, NODE) for statistic in UsageStatistic}
    assert usage == dict.fromkeys(UsageStatistic)
    assert found.is_cold(NODE)
