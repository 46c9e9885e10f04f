"""Long windows, compared with a list of everything that was appended."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from koordlet.metric_cache import aggregation
from koordlet.metric_cache.aggregation import UsageStatistic
from koordlet.metric_cache.interface import MetricCache, TimeWindow
from koordlet.metric_cache.long_windows import LongWindowCache
from koordlet.samples import NODE, SeriesKey, SeriesKind, UsageSample

HOUR = 3600
START = 1.7e9


def pod(name):
    return SeriesKey(SeriesKind.POD, str(name))


def statistics(cache, until, seconds):
    found = aggregation.aggregate(cache.samples((NODE,), TimeWindow(until, seconds)), list(UsageStatistic))
    return {name: found.usage(name, NODE) for name in UsageStatistic}, found.is_cold(NODE)


@pytest.fixture(scope="module")
def busy_until_33_minutes_ago():
    """Return a cache after four hours: 8 cores until 2000 s ago, then 1, and 2 GiB in every second minute."""
    cache: MetricCache = LongWindowCache(max_series=16)
    for second in range(1, 4 * HOUR + 1):
        memory = 1e9 if second // 60 % 2 else 2e9
        cache.append(START + second, {NODE: UsageSample(8.0 if second <= 4 * HOUR - 2000 else 1.0, memory)})
    return cache


@pytest.mark.parametrize("seconds", [45 * 60, HOUR, 2 * HOUR, 3 * HOUR])
def test_the_mean_of_a_long_window_is_that_of_all_its_samples(busy_until_33_minutes_ago, seconds):
    found, is_cold = statistics(busy_until_33_minutes_ago, START + 4 * HOUR, seconds)
    assert not is_cold
    assert found["avg"].cpu_cores == pytest.approx((8 * (seconds - 2000) + 2000) / seconds, rel=0.02)
    assert found["p99"].cpu_cores == 8.0
    assert found["p50"].cpu_cores == (1.0 if seconds < 4000 else 8.0)
    busy = (seconds - 2000) / seconds
    assert found["std"].cpu_cores == pytest.approx(7 * math.sqrt(busy * (1 - busy)), rel=0.02)


def test_a_window_of_less_than_half_data_is_cold_and_one_of_more_is_not(busy_until_33_minutes_ago):
    assert not statistics(busy_until_33_minutes_ago, START + 4 * HOUR, 7 * HOUR)[1]
    assert statistics(busy_until_33_minutes_ago, START + 4 * HOUR, 9 * HOUR)[1]


def test_twelve_hours_are_held_and_no_more():
    cache = LongWindowCache(max_series=0)
    for second in range(1, 13 * HOUR + 1, 5):  # each append stands for five seconds
        cache.append(START + second, {NODE: UsageSample(second / HOUR, 1.0)})
    found, is_cold = statistics(cache, START + 13 * HOUR, 12 * HOUR)
    assert not is_cold
    assert found["avg"].cpu_cores == pytest.approx(7.0, rel=0.01)


def test_a_young_cache_answers_a_long_window_from_every_sample():
    cache = LongWindowCache(max_series=16)
    for second in range(100):
        cache.append(START + second, {NODE: UsageSample(second, 1.0)})
    found, is_cold = statistics(cache, START + 99, 12 * HOUR)
    assert is_cold
    assert found["avg"].cpu_cores == pytest.approx(49.5)


def test_a_new_pod_has_a_mean_from_its_first_sample_on():
    cache = LongWindowCache(max_series=16)
    for second in range(1, 2000):
        new = {pod("new"): UsageSample(3.0, 7.0)} if second >= 1990 else {}
        cache.append(START + second, {NODE: UsageSample(1.0, 1.0), **new})
    found = aggregation.aggregate(
        cache.samples((pod("new"),), TimeWindow(START + 1999, 2 * HOUR)), (UsageStatistic.AVG,)
    )
    assert found.usage(UsageStatistic.AVG, pod("new")) == UsageSample(3.0, 7.0)


def test_a_pod_that_ended_gives_its_row_back_with_its_row_of_samples():
    """One row for pods: a new pod finds room half an hour after the end of the old one, not 12 hours after it."""
    cache = LongWindowCache(max_series=1)
    for second in range(2 * HOUR):
        name = "old" if second < 100 else "new" if second > 100 + 1900 else None
        cache.append(START + second, {pod(name): UsageSample(1.0, 1.0)} if name else {})
    assert cache.keys() == [pod("new")]
    found = cache.samples((pod("old"), pod("new")), TimeWindow(START + 2 * HOUR, 2 * HOUR)).values[0]
    assert np.isnan(found[0]).all()
    assert np.isfinite(found[1]).any()


PODS = range(3)
appends = st.lists(
    st.tuples(
        st.sampled_from([1, 1, 1, 1, 2, 15, 400, -1, -90, -3000]),  # step of the clock: gaps and steps back
        st.dictionaries(st.sampled_from(PODS), st.integers(0, 100), max_size=3),
    ),
    max_size=120,
)


@settings(max_examples=200)
@given(appends=appends, fine_slots=st.integers(4, 20), seconds=st.integers(1, 2000), back=st.integers(0, 30))
def test_whatever_is_appended_a_query_returns_what_a_list_would(appends, fine_slots, seconds, back):
    """The intervals are 15 s: four appends make a mean."""
    window_of_ring = fine_slots * 15.0
    cache = LongWindowCache(window_of_ring, 15.0, max_series=50)
    now, appended, means = 10_000.0, [], []
    for step, values in appends:
        now += step
        cache.append(now, {pod(name): UsageSample(value, 2 * value) for name, value in values.items()})
        appended.append((now, values))
        if len(appended) % 4 == 0:
            means.append((now, _mean(appended[-4:]), 4))
    until = now - back
    if seconds <= window_of_ring or len(appended) <= fine_slots:
        candidates = [(at, values, 1) for at, values in appended[-fine_slots:]]
    else:
        rest = len(appended) % 4
        candidates = [*means, (now, _mean(appended[-rest:]), rest)] if rest else means
    inside = [each for each in candidates if until - seconds < each[0] <= until]
    found = cache.samples([pod(name) for name in PODS], TimeWindow(until, float(seconds)))
    assert found.at_seconds.tolist() == [at for at, _, _ in inside]
    held = cache.keys()  # without those that had no sample in a whole ring
    for name in (each for each in PODS if pod(each) in held):
        expected = np.array([values.get(name, math.nan) for _, values, _ in inside])
        np.testing.assert_allclose(found.values[0, name], expected, rtol=1e-6)
        weighted = [(values[name], weight) for _, values, weight in inside if name in values]
        average = aggregation.average(found.values, found.weights)[1, name]
        wanted = (
            2 * sum(value * weight for value, weight in weighted) / sum(weight for _, weight in weighted)
            if weighted
            else math.nan
        )
        np.testing.assert_allclose(average, wanted, rtol=1e-6)


def _mean(samples):
    found = {name: [values[name] for _, values in samples if name in values] for name in PODS}
    return {name: sum(values) / len(values) for name, values in found.items() if values}


@pytest.mark.parametrize(("seconds", "weights"), [(600, [60.0] * 5), (601, [60.0] * 5 + [1.0])])
def test_the_minute_that_has_begun_is_a_mean_of_its_own_once_it_has_a_sample(seconds, weights):
    cache = LongWindowCache(window_seconds=120, max_series=4)
    for second in range(1, seconds + 1):
        cache.append(START + second, {NODE: UsageSample(2.0, 1e9)})
    found = cache.samples((NODE,), TimeWindow(START + seconds, 299))
    assert found.weights.tolist() == weights
    assert found.at_seconds[-1] == START + seconds
    assert np.isfinite(found.values).all()
