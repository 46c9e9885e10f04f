"""Properties of the statistics and predictors for every input.

Expected values are exact fractions over all samples. Times are whole half-lives and ratios are dyadic where a weight or
a rank must be exact, so that no tie depends on rounding.
"""

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from koordlet.metric_cache import series as class_series
from koordlet.metric_cache.series import Reserved
from koordlet.prediction import buckets, checkpoint
from koordlet.prediction.allocation import WholeAmounts
from koordlet.prediction.checkpoint import Checkpoint
from koordlet.prediction.histogram_bank import HistogramBank
from koordlet.prediction.parameters import PredictParameters
from koordlet.prediction.predictors import registry
from koordlet.prediction.server import PredictionServer
from koordlet.prediction.usage_models import UsageModels
from koordlet.samples import NODE, RESOURCES, SYSTEM, Resource, SeriesKey, SeriesKind, Snapshot, UsageSample
from tests.koordlet.prediction.linear_buckets import total_weight
from tests.koordlet.prediction.pods import Pod

ROW, OTHER_ROW = np.array([0], np.intp), np.array([1], np.intp)
START = 2.0**30
HALF_LIFE = 4096.0
GROWTH = 1.05
FIRST_BUCKET = {Resource.CPU: 0.001, Resource.MEMORY: 2.0**20}
LARGEST = {Resource.CPU: 1024.0, Resource.MEMORY: 2.0**41}
SCHEME = {Resource.CPU: buckets.CPU_CORES, Resource.MEMORY: buckets.MEMORY_BYTES}
ROUNDING = 1e-9


def add(bank, row, value, at_seconds):
    bank.add(row, np.array([value]), at_seconds)


# Percentiles


def exact_percentile(weighted, ratio):
    """Return the smallest value at which this share of the weight, 2^half-lives each, is reached."""
    wanted, running = ratio * sum(Fraction(2) ** half_lives for _, half_lives in weighted), Fraction(0)
    for value, half_lives in sorted(weighted):
        running += Fraction(2) ** half_lives
        if running >= wanted:
            return value
    raise AssertionError(f"{ratio} of the weight is never reached")


@pytest.mark.parametrize("resource", RESOURCES)
@given(st.lists(st.tuples(st.floats(0, 1), st.integers(-10, 0)), min_size=1, max_size=40), st.integers(1, 64))
def test_a_percentile_is_never_low_and_high_by_one_bucket_at_most(resource, samples, sixty_fourths):
    """A bucket of start s ends at 1.05 s + the first bucket's size: 5 %, and a millicore or a MiB at the low end.

    Ten half-lives keep every weight above epsilon, below which a bucket is not read as lowest or highest.
    """
    bank = HistogramBank(SCHEME[resource], HALF_LIFE)
    weighted = [(share * LARGEST[resource], half_lives) for share, half_lives in samples]
    for value, half_lives in weighted:
        add(bank, ROW, value, START + half_lives * HALF_LIFE)
    value = exact_percentile(weighted, Fraction(sixty_fourths, 64))
    found = bank.percentiles(ROW, (sixty_fourths / 64,))[0, 0]
    assert value * (1 - ROUNDING) <= found <= (value * GROWTH + FIRST_BUCKET[resource]) * (1 + ROUNDING)


# Moments and decay

steps_of_history = st.one_of(
    st.tuples(st.just("add"), st.integers(-30, 30), st.floats(0, 1000).map(lambda value: round(value, 6))),
    st.tuples(st.just("rebase"), st.integers(61, 300), st.just(1.0)),
    st.tuples(st.just("change half-life"), st.integers(-30, 30), st.sampled_from([0.25, 0.5, 2.0, 4.0])),
)


@given(st.lists(steps_of_history, min_size=1, max_size=40))
def test_mean_and_variance_are_the_exact_weighted_ones_through_any_rebasing(history):
    """To 1e-9 of the largest sample, and the deviation to 1e-9 of itself where it is at least a thousandth of that.

    For smaller deviations, M2 may be the rounding error of far larger numbers.
    """
    bank = HistogramBank(buckets.CPU_CORES, HALF_LIFE)
    origin, origin_exponent, half_life = START, 0, HALF_LIFE  # weight at a time: 2^(exponent + half-lives past origin)
    samples = []
    for what, half_lives, number in history:
        at_seconds = origin + half_lives * half_life
        if what == "add":
            add(bank, ROW, number, at_seconds)
            samples.append((Fraction(number), Fraction(2) ** (origin_exponent + half_lives)))
        elif what == "rebase":
            add(bank, OTHER_ROW, number, at_seconds)
        else:
            bank.change_half_life(half_life * number, at_seconds)
            origin, origin_exponent, half_life = at_seconds, origin_exponent + half_lives, half_life * number
    assume(samples)
    total = sum(weight for _, weight in samples)
    mean = sum(value * weight for value, weight in samples) / total
    variance = float(sum((value - mean) ** 2 * weight for value, weight in samples) / total)
    largest = float(max(value for value, _ in samples))
    found_mean, found_stdev = bank.mean(ROW)[0], bank.stdev(ROW)[0]
    assert abs(found_mean - float(mean)) <= 1e-9 * largest
    assert abs(found_stdev**2 - variance) <= 1e-9 * largest**2
    if math.sqrt(variance) >= largest / 1000:
        assert found_stdev == pytest.approx(math.sqrt(variance), rel=1e-9)


@example(60.0, [(False, 0, 0), (True, 0, 1.5), (True, 1, 0), (False, 0, 61), (False, 0, 1000)])
@given(
    st.floats(60, 1e6),
    st.lists(st.tuples(st.booleans(), st.floats(0, 1000), st.floats(0, 3000)), min_size=1, max_size=30),
)
def test_decay_over_years_neither_overflows_nor_underflows(half_life, history):
    """The newest sample always weighs 1 and old ones nothing beside it; a silent series has no false zero.

    3000 half-lives of 12 hours are four years.
    """
    bank, now = HistogramBank(buckets.CPU_CORES, half_life), START
    seen, last_seconds = {0: [], 1: []}, {0: -math.inf, 1: -math.inf}
    with np.errstate(over="raise", invalid="raise"):
        for is_other, value, gap_half_lives in history:
            now += gap_half_lives * half_life
            row = int(is_other)
            add(bank, (ROW, OTHER_ROW)[row], value, now)
            seen[row].append(value)
            weight = total_weight(bank, np.array([row], np.intp), now)[0]
            assert 1 - ROUNDING <= weight <= len(seen[row]) * (1 + ROUNDING)
            weight_before = len(seen[row]) * 2 ** ((last_seconds[row] - now) / half_life)
            assert abs(bank.mean(np.array([row], np.intp))[0] - value) <= 1000 * weight_before + 1e-6
            last_seconds[row] = now
            for each, values in seen.items():
                mean, stdev = (read(np.array([each], np.intp))[0] for read in (bank.mean, bank.stdev))
                assert math.isnan(mean) == math.isnan(stdev)
                if values and not math.isnan(mean):
                    assert min(values) - 1e-6 <= mean <= max(values) + 1e-6
                    assert 0 <= stdev <= max(values) / 2 + 1e-6  # half the range is the most a deviation can be


# Checkpoint

usages = st.tuples(st.floats(0, 2000), st.floats(0, 2.0**42))
PODS = tuple(SeriesKey(SeriesKind.POD, uid) for uid in "abc")


@given(st.lists(st.dictionaries(st.sampled_from([NODE, SYSTEM, *PODS]), usages), min_size=1, max_size=10))
def test_every_percentile_and_moment_that_was_saved_and_loaded_is_the_same(rounds):
    models, loaded = UsageModels(), UsageModels()
    half_lives = {Resource.CPU: 600.0, Resource.MEMORY: 86_400.0}
    for number, samples in enumerate(rounds):
        now = START + 30 * number
        models.train(now, {key: UsageSample(*usage) for key, usage in samples.items()}, half_lives)
    data = checkpoint.encode(Checkpoint("node", now, models.export()))
    loaded.restore(checkpoint.decode(data, "node").models)
    keys = [key for key in (NODE, SYSTEM, *PODS) if key in models]
    assert keys == [key for key in (NODE, SYSTEM, *PODS) if key in loaded]
    for resource in RESOURCES:
        for percent in (0.0, 50.0, 95.0, 99.0, 100.0):
            one, other = (each.statistics(resource, keys).percentile(percent) for each in (models, loaded))
            np.testing.assert_array_equal(one, other)
        one, other = (each.statistics(resource, keys) for each in (models, loaded))
        np.testing.assert_array_equal(one.mean(), other.mean())
        np.testing.assert_array_equal(one.stdev(), other.stdev())


# Predictors

EVERY_PREDICTOR = tuple(registry.PREDICTORS)
OF_PERCENTILES = ("borg-default", "resource-central", "percentile")
STEP_SECONDS = 300
BOTH = (Pod("a"), Pod("b"))
PARAMETERS = PredictParameters(cold_start_period_seconds=0)
core_counts = st.floats(0, 50).map(lambda value: round(value, 3))
histories = st.lists(st.tuples(core_counts, core_counts), min_size=2, max_size=12)


def cpu_peaks(history, pods=BOTH, parameters=PARAMETERS):
    """Return the peak by each predictor of a node whose pods a and b used this many cores, one pair per step."""
    server = PredictionServer(parameters)
    for step, pair in enumerate(history):
        now = START + STEP_SECONDS * step
        used = {uid: UsageSample(cores, 1e9) for uid, cores in zip("ab", pair, strict=True)}
        snapshot = Snapshot(now, UsageSample(sum(pair), 2e9), UsageSample(0.0, 0.0), used)
        server.train(now, class_series.snapshot_series(snapshot, {}, Reserved(0.0, 0.0)))
    found = {}
    for name in EVERY_PREDICTOR:
        server.configure(parameters.for_predictor(name))
        server.train(now, {})
        found[name] = server.predict(now, pods, WholeAmounts(10**6, 2**40)).prod[Resource.CPU].peak
    return found


def raised(history, step, cores):
    """Return the same history with one sample of pod a raised by so many cores."""
    return [(a + cores * (step == number), b) for number, (a, b) in enumerate(history)]


def no_lower(before, after, names):
    return [name for name in names if after[name] < before[name] * (1 - ROUNDING)] == []


@given(histories, st.data(), core_counts)
def test_predictors_of_percentiles_and_requests_are_monotone_in_every_single_sample(history, data, more):
    step = data.draw(st.integers(0, len(history) - 1))
    assert no_lower(cpu_peaks(history), cpu_peaks(raised(history, step, more)), OF_PERCENTILES)


def deviations_from_mean(values):
    """Return the deviations of each value above the decayed mean; 0 where there is no deviation."""
    half_lives = np.arange(len(values)) * STEP_SECONDS / PARAMETERS.cpu_half_life_seconds
    weights = 2.0**half_lives
    mean = np.average(values, weights=weights)
    stdev = math.sqrt(np.average((values - mean) ** 2, weights=weights))
    return (values - mean) / stdev if stdev > 1e-6 else np.zeros(len(values))


@given(histories, st.data(), core_counts, st.sampled_from([1.0, 3.0, 5.0, 10.0]))
def test_every_predictor_is_monotone_in_a_sample_not_far_below_the_mean(history, data, more, n):
    """d sig / dx_i = w_i (1 + N z_i), z_i = (x_i - mean) / stdev, and z_i only rises with x_i.

    So `mean + N * stdev` does not fall if a sample is raised that lies 1/N of a deviation or less below the mean, in
    the series of the pod and in that of the class.
    """
    values = np.array(history)
    not_far_below = np.minimum(deviations_from_mean(values[:, 0]), deviations_from_mean(values.sum(axis=1))) >= -1 / n
    assume(not_far_below.any())
    step = data.draw(st.sampled_from(np.flatnonzero(not_far_below).tolist()))
    parameters = replace(PARAMETERS, n=n)
    before, after = (cpu_peaks(each, parameters=parameters) for each in (history, raised(history, step, more)))
    assert no_lower(before, after, EVERY_PREDICTOR)


def test_n_sigma_falls_when_a_quiet_moment_becomes_as_busy_as_the_others():
    """The formula, not an error: 0 and 10 are 5 + 5 * 5, twice 10 is 10. Both cover the highest usage, 10."""
    steady = replace(PARAMETERS, cpu_half_life_seconds=1e12)
    before, after = (cpu_peaks(each, parameters=steady) for each in ([(0.0, 0.0), (10.0, 0.0)], [(10.0, 0.0)] * 2))
    assert (before["n-sigma-v1"], after["n-sigma-v1"]) == pytest.approx((30.0, 10.0))
    assert (before["n-sigma-v2"], after["n-sigma-v2"]) == pytest.approx((30.0, 10.0))
    assert no_lower(before, after, OF_PERCENTILES)


@given(histories, st.floats(1, 4), core_counts)
def test_every_predictor_rises_with_usage_as_a_whole(history, factor, more):
    """All samples times a number, or all of a pod higher by the same: busier, not less even."""
    busier = [(factor * a + more, factor * b) for a, b in history]
    assert no_lower(cpu_peaks(history), cpu_peaks(busier), EVERY_PREDICTOR)


@given(histories, st.lists(st.integers(0, 64_000), max_size=4), st.booleans())
def test_a_peak_is_never_below_the_sum_of_cold_requests(history, requests_millis, is_everyone_cold):
    newcomers = [Pod(f"new-{number}", cpu_request_millis=millis) for number, millis in enumerate(requests_millis)]
    parameters = replace(PARAMETERS, cold_start_period_seconds=86_400 if is_everyone_cold else 0)
    pods = (*BOTH, *newcomers)
    cold = sum(requests_millis) / 1000 + (2.0 if is_everyone_cold else 0.0)
    found = cpu_peaks(history, pods, parameters)
    assert {name: peak for name, peak in found.items() if peak < cold * (1 - ROUNDING)} == {}


# Values that are not usage

anything = st.one_of(
    st.floats(0, 1e6), st.floats(max_value=1e6), st.sampled_from([math.nan, math.inf, -math.inf, -1.0])
)
series = st.sampled_from([NODE, SYSTEM, class_series.PROD, *PODS])


@given(st.lists(st.dictionaries(series, st.tuples(anything, anything)), min_size=1, max_size=10))
def test_nan_infinite_and_negative_values_are_never_added(rounds):
    """Training with them is training without them, and only finite numbers are stored."""
    half_lives = {Resource.CPU: 600.0, Resource.MEMORY: 600.0}
    given_all, given_usable = UsageModels(), UsageModels()
    for number, samples in enumerate(rounds):
        now = START + 30 * number
        usable = {
            key: tuple(value if 0 <= value < math.inf else math.nan for value in usage)
            for key, usage in samples.items()
        }
        done = given_all.train(now, {key: UsageSample(*usage) for key, usage in samples.items()}, half_lives)
        with_a_value = {key: UsageSample(*usage) for key, usage in usable.items() if not all(map(math.isnan, usage))}
        given_usable.train(now, with_a_value, half_lives)
        unusable = sum(math.isnan(value) for usage in usable.values() for value in usage)
        assert done.unusable_values == unusable
    trained, expected = given_all.export(), given_usable.export()
    assert set(trained.keys) == set(expected.keys)
    for resource in RESOURCES:
        bank = trained.banks[resource]
        assert np.isfinite(bank.cell_weights).all()
        assert np.isfinite(bank.columns[:3]).all()
        one, other = (each.statistics(resource, trained.keys) for each in (given_all, given_usable))
        for read in ("mean", "stdev"):
            np.testing.assert_array_equal(getattr(one, read)(), getattr(other, read)())
        np.testing.assert_array_equal(one.percentile(95), other.percentile(95))
