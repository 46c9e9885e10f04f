"""Properties of the statistics and predictors for every input.

Expected values are exact fractions over all samples. Times are whole half-lives and ratios are dyadic where a weight or
a rank must be exact, so that no tie depends on rounding.
"""

import math
from dataclasses import replace

import numpy as np
from hypothesis import assume, given
from hypothesis import strategies as st

from koordlet.metric_cache import series as class_series
from koordlet.metric_cache.series import Reserved
from koordlet.prediction.allocation import WholeAmounts
from koordlet.prediction.parameters import PredictParameters
from koordlet.prediction.predictors import registry
from koordlet.prediction.server import PredictionServer
from koordlet.samples import NODE, SYSTEM, Resource, SeriesKey, SeriesKind, Snapshot, UsageSample
from tests.koordlet.prediction.pods import Pod

ROW, OTHER_ROW = np.array([0], np.intp), np.array([1], np.intp)
START = 2.0**30
ROUNDING = 1e-9


def add(bank, row, value, at_seconds):
    bank.add(row, np.array([value]), at_seconds)


# Percentiles


# Moments and decay

# Checkpoint

PODS = tuple(SeriesKey(SeriesKind.POD, uid) for uid in "abc")


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


@given(histories, st.floats(1, 4), core_counts)
def test_every_predictor_rises_with_usage_as_a_whole(history, factor, more):
    """All samples times a number, or all of a pod higher by the same: busier, not less even."""
    busier = [(factor * a + more, factor * b) for a, b in history]
    assert no_lower(cpu_peaks(history), cpu_peaks(busier), EVERY_PREDICTOR)


# Values that are not usage

series = st.sampled_from([NODE, SYSTEM, class_series.PROD, *PODS])
