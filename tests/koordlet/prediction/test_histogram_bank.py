"""Histograms of the bank: percentiles, decay, change of half-life, rows, against the definition."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from koordlet.prediction import histogram_bank
from koordlet.prediction.histogram_bank import ExponentialBuckets, HistogramBank
from tests.koordlet.prediction.linear_buckets import LinearBuckets, bucket_weights, is_empty, total_weight
from tests.koordlet.prediction.naive_histogram import NaiveHistogram

ROW, OTHER_ROW = np.array([0], np.intp), np.array([1], np.intp)
START = 1_234_567_890.0
HOUR = 3600.0
SMALL = ExponentialBuckets(max_value=100.0, first_bucket_size=1.0, ratio=1.5, epsilon=1e-4)


def bank_of(samples, scheme=None, half_life=math.inf, row=ROW):
    """Return a bank with one row of (value, weight, seconds after START)."""
    bank = HistogramBank(scheme or LinearBuckets(10.0, 1.0, 1e-15), half_life)
    for value, weight, offset in samples:
        bank.add(row, np.array([value], float), START + offset, weight)
    return bank


def percentile(bank, *ratios):
    return bank.percentiles(ROW, ratios)[0].tolist()


def test_an_empty_histogram_has_no_percentile_rather_than_zero():
    assert np.isnan(HistogramBank(SMALL).percentiles(ROW, (0.5, 1.0))).all()


def test_percentiles_of_one_to_a_hundred_cores_match_koordinator():
    upstream = ExponentialBuckets(1024, 0.025, 1.05, 0.0001)
    bank = bank_of([(float(cores), 1.0, 0) for cores in range(1, 101)], upstream)
    millis = [math.trunc(1000 * value) for value in percentile(bank, 0.6, 0.9, 0.95, 0.98, 1.0)]
    assert millis == [62119, 92017, 96643, 101500, 101500]


def test_a_constant_memory_series_reads_high_by_part_of_a_bucket_as_in_koordinator():
    bank = bank_of([(256 * 2**20, 1.0, 0)] * 3, ExponentialBuckets(2**41, 5 * 2**20, 1.05, 0.0001))
    assert math.trunc(percentile(bank, 0.98)[0]) == 286623669


def test_buckets_below_epsilon_at_either_end_are_not_read_as_lowest_or_highest():
    bank = bank_of([(0.5, 1e-5, 0), (1.5, 1.0, 0), (8.5, 1e-5, 0)], LinearBuckets(10.0, 1.0, 1e-4))
    assert percentile(bank, 0.0, 1.0) == [2.0, 2.0]


def test_a_bucket_of_a_heavy_row_is_in_use_from_epsilon_on_and_of_a_light_row_by_its_share():
    bank = HistogramBank(LinearBuckets(1.0, 0.1, 1e-3))
    assert np.isnan(percentile(bank, 1.0)[0])
    bank.add(ROW, np.array([0.15]), START, 1e-9)
    assert percentile(bank, 1.0) == pytest.approx([0.2])
    bank.add(ROW, np.array([0.55]), START, 2.0)
    assert percentile(bank, 0.0) == pytest.approx([0.6])


def test_a_silent_row_keeps_its_percentiles_while_the_reference_moves_on():
    """The pod of half an hour ago, half-life 60 s: with an absolute epsilon it had none, and the node no prediction."""
    bank = bank_of([(2, 1, 0), (7, 1, 0)], half_life=60)
    before = percentile(bank, 0.99)
    for step in range(1, 200):
        bank.add(OTHER_ROW, np.array([1.0]), START + 30 * step)
    assert percentile(bank, 0.99) == before


@st.composite
def sample_lists(draw, row_count=1):
    """Draw values well inside of their bucket, and times of three days in any order."""
    naive = NaiveHistogram(1.0, 1.5, len(SMALL.starts), HOUR)
    samples = []
    for _ in range(draw(st.integers(1, 30))):
        bucket = draw(st.integers(0, len(SMALL.starts) - 2))
        inside = draw(st.floats(0.01, 0.99))
        value = naive.starts[bucket] + inside * (naive.starts[bucket + 1] - naive.starts[bucket])
        row = draw(st.integers(0, row_count - 1))
        samples.append((row, value, draw(st.floats(0.5, 2.0)), draw(st.floats(0, 3 * 24 * HOUR))))
    return samples


def naive_of(samples, half_life):
    naive = NaiveHistogram(1.0, 1.5, len(SMALL.starts), half_life)
    for _, value, weight, offset in samples:
        naive.add(value, START + offset, weight)
    return naive


def assert_percentile_is(found, naive, ratio, now):
    """Compare, except for the side of a tie to which rounding falls."""
    either = [naive.percentile(ratio * (1 + noise), now) for noise in (-1e-9, 1e-9)]
    assert found == pytest.approx(either[0], rel=1e-9) or found == pytest.approx(either[1], rel=1e-9)


@given(sample_lists(), st.sampled_from([HOUR, 12 * HOUR]), st.floats(0.05, 0.999))
def test_percentiles_follow_the_definition_whatever_the_order_of_samples(samples, half_life, ratio):
    found = percentile(bank_of([sample[1:] for sample in samples], SMALL, half_life), ratio)[0]
    assert_percentile_is(found, naive_of(samples, half_life), ratio, START + 3 * 24 * HOUR)


@given(sample_lists(row_count=4), st.floats(0.05, 0.999))
@settings(max_examples=50)
def test_rows_are_independent(samples, ratio):
    together = HistogramBank(SMALL, 6 * HOUR)
    for row, value, weight, offset in samples:
        together.add(np.array([row], np.intp), np.array([value]), START + offset, weight)
    for row in {sample[0] for sample in samples}:
        own = [sample for sample in samples if sample[0] == row]
        found = together.percentiles(np.array([row], np.intp), (ratio,))[0, 0]
        assert_percentile_is(found, naive_of(own, 6 * HOUR), ratio, START + 3 * 24 * HOUR)


@given(sample_lists(), st.floats(61, 400))
def test_moving_the_reference_changes_no_percentile_mean_or_deviation(samples, half_lives_later):
    """The bank moves its reference at 60 half-lives; a far newer sample in another row forces it."""
    bank = bank_of([sample[1:] for sample in samples], SMALL, 100 * 24 * HOUR)
    before = (percentile(bank, 0.1, 0.5, 0.9), bank.mean(ROW)[0], bank.stdev(ROW)[0])
    reference = bank.reference_seconds
    bank.add(np.array([1], np.intp), np.array([1.0]), START + half_lives_later * 100 * 24 * HOUR)
    assert bank.reference_seconds > reference
    if not is_empty(bank, ROW)[0]:  # not yet below epsilon
        assert percentile(bank, 0.1, 0.5, 0.9) == before[0]
    assert bank.mean(ROW)[0] == pytest.approx(before[1], rel=1e-12)
    assert bank.stdev(ROW)[0] == pytest.approx(before[2], rel=1e-9, abs=1e-12)


def test_years_of_samples_never_overflow():
    bank = bank_of([(float(day % 7), 1.0, day * 24 * HOUR) for day in range(3000)], half_life=HOUR)
    assert bank.mean(ROW)[0] == pytest.approx(2999 % 7, abs=1e-6)
    assert np.isfinite(total_weight(bank, ROW, START + 3000 * 24 * HOUR)[0])


def test_a_changed_half_life_applies_from_then_on_and_changes_no_weight_itself():
    bank = bank_of([(2, 1, 0), (7, 1, 2 * HOUR)], half_life=HOUR)
    now = START + 3 * HOUR
    before = bucket_weights(bank, ROW, now)
    bank.change_half_life(24 * HOUR, now)
    assert bucket_weights(bank, ROW, now) == pytest.approx(before, rel=1e-12)
    assert before[0, [2, 7]].tolist() == pytest.approx([1 / 8, 1 / 2])
    assert bucket_weights(bank, ROW, now + 24 * HOUR)[0, [2, 7]].tolist() == pytest.approx([1 / 16, 1 / 4])


def test_a_shifted_clock_keeps_the_age_of_every_sample():
    bank = bank_of([(2, 1, 0), (7, 1, HOUR)], half_life=HOUR)
    bank.shift_clock(-1e8)
    assert bucket_weights(bank, ROW, START - 1e8 + HOUR)[0, [2, 7]].tolist() == pytest.approx([0.5, 1.0])
    assert bank.first_seconds(ROW)[0] == START - 1e8
    assert bank.last_seconds(ROW)[0] == START - 1e8 + HOUR


def test_a_cleared_row_is_empty_and_growth_keeps_the_rows():
    bank = HistogramBank(SMALL, HOUR, capacity=2)
    bank.add(np.array([0, 1], np.intp), np.array([5.0, 50.0]), START)
    bank.clear(ROW)
    bank.ensure_rows(9)
    rows = np.arange(9)
    assert is_empty(bank, rows).tolist() == [row != 1 for row in rows]
    assert bank.mean(rows)[1] == 50.0
    assert np.isnan(bank.first_seconds(ROW)[0])
    bank.add(np.array([8], np.intp), np.array([7.0]), START)
    assert bank.mean(rows)[8] == 7.0


@given(sample_lists(row_count=3))
@settings(max_examples=30)
def test_restored_rows_are_the_same_to_the_last_bit(samples):
    bank = HistogramBank(SMALL, 6 * HOUR)
    for row, value, weight, offset in samples:
        bank.add(np.array([row], np.intp), np.array([value]), START + offset, weight)
    fresh, rows = HistogramBank(SMALL), np.arange(3)
    fresh.restore(rows, bank.state(rows))
    now = START + 3 * 24 * HOUR
    for read in (
        lambda b: b.percentiles(rows, (0.1, 0.5, 0.95, 1.0)),
        lambda b: b.mean(rows),
        lambda b: b.stdev(rows),
        lambda b: bucket_weights(b, rows, now),
        lambda b: b.first_seconds(rows),
        lambda b: b.last_seconds(rows),
    ):
        np.testing.assert_array_equal(read(fresh), read(bank))
    assert (fresh.half_life_seconds, fresh.reference_seconds) == (bank.half_life_seconds, bank.reference_seconds)


@given(st.lists(st.floats(0.02, 1000), min_size=1, max_size=40), st.floats(0.01, 1))
def test_a_percentile_of_cpu_errs_upwards_by_at_most_a_tenth(cores, ratio):
    """5 % growth and a first bucket of a millicore: 5 % + 1 millicore above 20 millicores."""
    bank = HistogramBank(histogram_bank.CPU_CORES)
    for value in cores:
        bank.add(ROW, np.array([value]), START)
    exact = sorted(cores)[math.ceil(ratio * len(cores) - 1e-9) - 1]
    assert exact * (1 - 1e-9) <= percentile(bank, ratio)[0] <= exact * 1.0501 + 0.0011


def add(moments, value, weight=1.0):
    moments.add(ROW, np.array([value]), START, weight)


def test_a_sample_too_old_to_weigh_anything_changes_nothing():
    moments = HistogramBank(histogram_bank.CPU_CORES)
    add(moments, 7.0, 0.0)
    assert np.isnan([moments.mean(ROW)[0], moments.stdev(ROW)[0]]).all()
    add(moments, 3.0, 1.0)
    assert (moments.mean(ROW)[0], moments.stdev(ROW)[0]) == (3.0, 0.0)


@given(st.lists(st.tuples(st.floats(0, 100), st.integers(-30, 0)), min_size=1, max_size=40))
def test_decayed_moments_are_those_of_all_samples_in_exact_arithmetic(samples):
    """Times are whole half-lives, so that each weight is an exact power of two."""
    half_life = 3600.0
    bank, naive = HistogramBank(histogram_bank.CPU_CORES, half_life), NaiveHistogram(0.001, 1.05, 3, half_life)
    for value, half_lives in samples:
        bank.add(ROW, np.array([value]), half_lives * half_life)
        naive.add(value, half_lives * half_life)
    mean, variance = naive.mean_and_variance(0.0)
    assert bank.mean(ROW)[0] == pytest.approx(mean, rel=1e-12, abs=1e-12)
    assert bank.stdev(ROW)[0] == pytest.approx(math.sqrt(variance), rel=1e-7, abs=1e-6)


def test_the_deviation_of_a_steady_series_is_not_blurred_by_bucket_width():
    bank = HistogramBank(histogram_bank.MEMORY_BYTES, 86_400.0)
    values = [3.0e9 + 1e3 * (-1) ** step for step in range(1000)]
    for step, value in enumerate(values):
        bank.add(ROW, np.array([value]), step * 30.0)
    assert bank.stdev(ROW)[0] == pytest.approx(1e3, rel=1e-6)


def positions(scheme, *values):
    return scheme.positions(np.array(values, float)).tolist()


@pytest.mark.parametrize("ratio", [1.01, 1.05, 1.1, 2.0])
def test_the_first_start_itself_is_in_the_second_bucket(ratio):
    assert positions(ExponentialBuckets(1024, 0.025, ratio, 0.0001), 0.0249, 0.025) == [0, 1]


@given(st.floats(0.001, 1024))
def test_a_value_lies_between_the_ends_of_its_bucket(cores):
    (bucket,) = positions(histogram_bank.CPU_CORES, cores)
    starts = histogram_bank.CPU_CORES.starts
    assert starts[bucket] <= cores * (1 + 1e-12)
    assert cores <= starts[bucket + 1] * (1 + 1e-12)


@pytest.mark.parametrize(
    ("make", "named"),
    [
        (lambda: ExponentialBuckets(0.0, 0.3, 1.5, 0.1), "max_value of buckets is 0.0"),
        (lambda: ExponentialBuckets(1.0, 0.3, 1.0, 0.1), "ratio of exponential buckets is 1.0"),
        (lambda: ExponentialBuckets(1.0, 0.0, 1.5, 0.1), "first_bucket_size of buckets is 0.0"),
        (lambda: ExponentialBuckets(1.0, 0.3, 1.5, 0.0), "epsilon of buckets is 0.0"),
    ],
)
def test_impossible_numbers_are_refused_by_name(make, named):
    with pytest.raises(ValueError, match=named):
        make()
