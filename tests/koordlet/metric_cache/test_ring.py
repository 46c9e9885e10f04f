"""The ring, compared with a list of everything that was appended."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from koordlet.metric_cache import ring
from koordlet.metric_cache.interface import TimeWindow
from koordlet.metric_cache.ring import RingCache
from koordlet.samples import NODE, SYSTEM, SeriesKey, SeriesKind, UsageSample

NAN = math.nan


def pod(name):
    return SeriesKey(SeriesKind.POD, str(name))


def cpu(cache, key, until, seconds):
    """Return the CPU samples of one series in a window, as a list."""
    return cache.samples([key], TimeWindow(until, seconds)).values[0, 0].tolist()


def test_a_clock_step_before_the_first_sample_computes_with_no_uninitialised_memory(monkeypatch):
    monkeypatch.setattr(ring.np, "empty", lambda shape, kind: np.full(shape, math.inf, kind))
    with np.errstate(all="raise"):
        cache = RingCache()
        cache.shift(-math.inf)
    cache = RingCache()
    cache.shift(-3600.0)
    cache.append(1.0, {NODE: UsageSample(0.5, 100)})
    assert cpu(cache, NODE, 1.0, 10.0) == [0.5]


def test_samples_come_back_by_resource_series_and_time():
    cache = RingCache()
    cache.append(1.0, {NODE: UsageSample(0.5, 100), pod("a"): UsageSample(0.25, 10)})
    cache.append(2.0, {NODE: UsageSample(1.5, 300)})
    found = cache.samples([pod("a"), NODE], TimeWindow(2.0, 10.0))
    assert found.keys == (pod("a"), NODE)
    assert found.at_seconds.tolist() == [1.0, 2.0]
    np.testing.assert_array_equal(found.values, [[[0.25, NAN], [0.5, 1.5]], [[10, NAN], [100, 300]]])


def test_a_window_leaves_out_its_beginning_and_includes_its_end():
    cache = RingCache()
    for second in range(1, 8):
        cache.append(float(second), {NODE: UsageSample(second, 0)})
    assert cpu(cache, NODE, until=6.0, seconds=3.0) == [4, 5, 6]


def test_a_series_that_is_not_cached_has_no_samples():
    cache = RingCache()
    cache.append(1.0, {NODE: UsageSample(1, 1)})
    found = cache.samples([pod("x"), NODE], TimeWindow(1.0, 5.0))
    np.testing.assert_array_equal(found.values, [[[NAN], [1]], [[NAN], [1]]])


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


def test_the_newest_append_overwrites_the_oldest():
    cache = RingCache(window_seconds=5)
    for second in range(1, 13):
        cache.append(float(second), {NODE: UsageSample(second, 0)})
    assert cpu(cache, NODE, until=12.0, seconds=100.0) == [8, 9, 10, 11, 12]


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


def test_a_series_with_a_sample_in_the_window_keeps_its_row():
    cache = RingCache(window_seconds=100, max_series=1)
    cache.append(0.0, {pod("a"): UsageSample(7, 7)})
    for second in range(1, 120):
        cache.append(float(second), {pod("a"): UsageSample(7, 7)} if second == 60 else {})
    assert cache.keys() == [pod("a")]


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


@settings(max_examples=30)
@given(lives=st.lists(st.integers(0, 6), min_size=20, max_size=80))
def test_rows_change_hands_without_a_trace(lives):
    """Pods come and go through two rows; the value of each pod is its own name, so a foreign value would show."""
    cache = RingCache(window_seconds=8, max_series=2)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ring, "_EXPIRY_APPENDS", 1)
        for second, life in enumerate(lives):
            cache.append(float(second), {pod(life): UsageSample(life, life)})
            for name in range(7):
                values = cpu(cache, pod(name), float(second), 100.0)
                assert {value for value in values if not math.isnan(value)} <= {float(name)}


ONE = UsageSample(1.0, 1.0)


def test_only_the_kept_series_have_rows():
    cache = RingCache(max_series=2)
    cache.append(1.0, {pod("a"): ONE, pod("b"): ONE, NODE: ONE})
    cache.keep_only([pod("b"), NODE])
    assert cache.keys() == [pod("b"), NODE]
    cache.append(2.0, {pod("c"): ONE, pod("d"): ONE})
    assert cache.keys() == [pod("b"), NODE, pod("c")]
    assert cache.refused_samples == 1
