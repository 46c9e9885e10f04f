"""The ring, compared with a list of everything that was appended."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from koordlet.metric_cache import aggregation
from koordlet.metric_cache.aggregation import TimeWindow, UsageStatistic
from koordlet.metric_cache.ring import LongWindowCache, RingCache
from koordlet.samples import NODE, SYSTEM, SeriesKey, SeriesKind, UsageSample

NAN = math.nan


def pod(name):
    return SeriesKey(SeriesKind.POD, str(name))


def cpu(cache, key, until, seconds):
    """Return the CPU samples of one series in a window, as a list."""
    return cache.samples([key], TimeWindow(until, seconds)).values[0, 0].tolist()


def test_samples_come_back_by_resource_series_and_time():
    cache = RingCache()
    cache.append(1.0, {NODE: UsageSample(0.5, 100), pod("a"): UsageSample(0.25, 10)})
    cache.append(2.0, {NODE: UsageSample(1.5, 300)})
    found = cache.samples([pod("a"), NODE], TimeWindow(2.0, 10.0))
    assert found.keys == (pod("a"), NODE)
    assert found.at_seconds.tolist() == [1.0, 2.0]
    np.testing.assert_array_equal(found.values, [[[0.25, NAN], [0.5, 1.5]], [[10, NAN], [100, 300]]])


def test_an_empty_cache_and_an_empty_query_have_empty_results():
    cache = RingCache()
    assert cache.samples([NODE], TimeWindow(1.0, 5.0)).values.shape == (2, 1, 0)
    cache.append(1.0, {})
    assert cache.samples([], TimeWindow(1.0, 5.0)).values.shape == (2, 0, 1)
    assert cpu(cache, NODE, 1.0, 5.0) == pytest.approx([NAN], nan_ok=True)


@pytest.mark.parametrize("value", [NAN, math.inf, -math.inf, -1e-9, 1e39])
def test_an_invalid_usage_is_no_sample(value):
    cache = RingCache()
    cache.append(1.0, {NODE: UsageSample(value, 5), SYSTEM: UsageSample(5, value)})
    values = cache.samples([NODE, SYSTEM], TimeWindow(1.0, 1.0)).values[:, :, 0]
    np.testing.assert_array_equal(values, [[NAN, 5], [5, NAN]])


def test_a_series_that_ended_is_removed_and_its_row_is_clean_for_the_next():
    cache = RingCache(window_seconds=100, max_series=1)
    cache.append(0.0, {pod("old"): UsageSample(7, 7)})
    for second in range(1, 121):
        cache.append(float(second), {})
    assert cache.keys() == []
    cache.append(121.0, {pod("new"): UsageSample(1, 1)})
    assert cache.keys() == [pod("new")]
    found = [value for value in cpu(cache, pod("new"), 121.0, 1000.0) if not math.isnan(value)]
    assert found == [1.0]


def test_a_pod_that_ended_frees_its_row_long_before_the_window_ends_and_the_node_keeps_its_samples():
    cache = RingCache(window_seconds=1800)
    cache.append(0.0, {pod("ended"): UsageSample(7, 7), NODE: UsageSample(9, 9)})
    keys = []
    for second in range(1, 361):
        cache.append(float(second), {pod("runs"): UsageSample(1, 1)})
        keys.append(cache.keys())
    assert pod("ended") in keys[298]
    assert pod("ended") not in keys[359]
    assert cpu(cache, NODE, 360.0, 1800.0)[0] == 9.0


def test_pods_beyond_the_limit_are_refused_and_counted_and_the_node_is_not():
    cache = RingCache(max_series=2)
    cache.append(1.0, {pod(name): UsageSample(name, 1) for name in range(5)})
    cache.append(2.0, {NODE: UsageSample(9, 9), SYSTEM: UsageSample(8, 8)})
    assert cache.keys() == [pod(0), pod(1), NODE, SYSTEM]
    assert (cache.refused_samples, cache.series_count) == (3, 4)
    assert cpu(cache, pod(1), 1.0, 1.0) == [1.0]
    assert cpu(cache, NODE, 2.0, 1.0) == [9.0]
    np.testing.assert_array_equal(cpu(cache, pod(3), 1.0, 1.0), [NAN])


def test_a_clock_set_back_hides_the_future_until_it_comes():
    cache = RingCache()
    for stamp in (100.0, 101.0, 102.0, 50.0, 51.0):
        cache.append(stamp, {NODE: UsageSample(stamp, 0)})
    assert cpu(cache, NODE, until=51.0, seconds=30.0) == [50, 51]
    assert cpu(cache, NODE, until=102.0, seconds=2.5) == [100, 101, 102]
    assert cpu(cache, NODE, until=102.0, seconds=100.0) == [100, 101, 102, 50, 51]


def test_a_clock_set_back_forgets_no_series():
    cache = RingCache(window_seconds=100)
    for stamp in range(1000, 1030):
        cache.append(float(stamp), {pod("a"): UsageSample(1, 1)})
    for stamp in range(10, 70):
        cache.append(float(stamp), {})
    assert cache.keys() == [pod("a")]


appends = st.lists(
    st.tuples(
        st.integers(-3, 4),  # step of the clock
        st.dictionaries(st.integers(0, 6), st.integers(0, 1000), max_size=5),  # pod -> value
    ),
    max_size=80,
)


@settings(max_examples=200)
@given(appends=appends, slots=st.integers(1, 12), seconds=st.integers(1, 20), back=st.integers(0, 5))
def test_whatever_is_appended_a_query_returns_what_a_list_would(appends, slots, seconds, back):
    cache = RingCache(window_seconds=float(slots), max_series=50)
    now, appended = 100, []
    for step, values in appends:
        now += step
        cache.append(float(now), {pod(name): UsageSample(value, 2 * value) for name, value in values.items()})
        appended.append((now, values))
    until = now - back
    inside = [(at, values) for at, values in appended[-slots:] if until - seconds < at <= until]
    found = cache.samples([pod(name) for name in range(7)], TimeWindow(float(until), float(seconds)))
    assert found.at_seconds.tolist() == [at for at, _ in inside]
    for name in range(7):
        expected = np.array([values.get(name, NAN) for _, values in inside])
        np.testing.assert_array_equal(found.values[0, name], expected)
        np.testing.assert_array_equal(found.values[1, name], 2 * expected)


HOUR = 3600
START = 1.7e9


def statistics(cache, until, seconds):
    found = aggregation.aggregate(cache.samples((NODE,), TimeWindow(until, seconds)), list(UsageStatistic))
    return {name: found.usage(name, NODE) for name in UsageStatistic}, found.is_cold(NODE)


@pytest.fixture(scope="module")
def busy_until_33_minutes_ago():
    """Return a cache after four hours: 8 cores until 2000 s ago, then 1, and 2 GiB in every second minute."""
    cache = LongWindowCache(max_series=16)
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


def test_a_pod_that_ended_gives_its_row_back_with_its_row_of_samples():
    """One row for pods: a new pod_ finds room half an hour after the end of the old one, not 12 hours after it."""
    cache = LongWindowCache(max_series=1)
    for second in range(2 * HOUR):
        name = "old" if second < 100 else "new" if second > 100 + 1900 else None
        cache.append(START + second, {pod(name): UsageSample(1.0, 1.0)} if name else {})
    assert cache.keys() == [pod("new")]
    found = cache.samples((pod("old"), pod("new")), TimeWindow(START + 2 * HOUR, 2 * HOUR)).values[0]
    assert np.isnan(found[0]).all()
    assert np.isfinite(found[1]).any()


PODS = range(3)
long_appends = st.lists(
    st.tuples(
        st.sampled_from([1, 1, 1, 1, 2, 15, 400, -1, -90, -3000]),  # step of the clock: gaps and steps back
        st.dictionaries(st.sampled_from(PODS), st.integers(0, 100), max_size=3),
    ),
    max_size=120,
)


@settings(max_examples=200)
@given(long_appends=long_appends, fine_slots=st.integers(4, 20), seconds=st.integers(1, 2000), back=st.integers(0, 30))
def test_whatever_is_appended_a_long_window_is_what_a_list_would_be(long_appends, fine_slots, seconds, back):
    """The intervals are 15 s: four long_appends make a mean."""
    window_of_ring = fine_slots * 15.0
    cache = LongWindowCache(window_of_ring, 15.0, max_series=50)
    now, appended, means = 10_000.0, [], []
    for step, values in long_appends:
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
