"""Sizes and windows of the rings at their boundaries."""

from __future__ import annotations

import math

import numpy as np
import pytest

from koordlet.metric_cache import aggregation
from koordlet.metric_cache.aggregation import Statistic
from koordlet.metric_cache.interface import Window, WindowSamples
from koordlet.metric_cache.long_windows import LongWindowCache
from koordlet.metric_cache.ring import RingCache
from koordlet.metric_cache.series import CLASSES, Reserved, series_of
from koordlet.metric_cache.store import MetricStore
from koordlet.samples import NODE, SYSTEM, SeriesKey, SeriesKind, Snapshot, UsageSample

ONE = UsageSample(1.0, 1.0)


def pod(name):
    return SeriesKey(SeriesKind.POD, str(name))


def cpu(cache, key, until, seconds):
    return cache.samples([key], Window(until, seconds)).values[0, 0].tolist()


@pytest.mark.parametrize("ratios", [[0.0, 0.5], [0.5, 1.5], [0.5, -0.1], [2.0]])
def test_one_ratio_beyond_0_to_1_refuses_all(ratios):
    with pytest.raises(ValueError, match="want 0 < ratio <= 1"):
        aggregation.percentiles(np.array([1.0, 2.0]), ratios)


def test_the_percentile_100_is_the_largest_sample():
    assert aggregation.percentiles(np.array([3.0, 9.0, 1.0]), [1.0]).tolist() == [9.0]


@pytest.mark.parametrize("missing", [0, 1])
def test_a_series_that_lacks_one_resource_has_no_usage(missing):
    values = np.ones((2, 2, 3))
    values[missing, 0] = math.nan
    samples = WindowSamples(Window(3.0, 3.0), (NODE, SYSTEM), np.array([1.0, 2.0, 3.0]), values)
    found = aggregation.aggregate(samples, [Statistic.AVG])
    assert found.usage(Statistic.AVG, NODE) is None
    assert found.usage(Statistic.AVG, SYSTEM) == ONE


@pytest.mark.parametrize("kind", [RingCache, LongWindowCache])
def test_half_an_hour_of_seconds_and_1500_pods_are_the_default(kind):
    cache = kind()
    ring = cache.ring if isinstance(cache, LongWindowCache) else cache
    cache.append(0.0, {pod(number): ONE for number in range(1502)})
    assert (ring.series_count, ring.refused_samples) == (1500, 2)
    for second in range(1, 1801):
        cache.append(float(second), {NODE: ONE})
    assert ring.samples([NODE], Window(1800.0, 5000.0)).at_seconds.tolist() == list(range(1, 1801))


def test_a_window_as_long_as_the_ring_is_answered_from_every_sample():
    cache = LongWindowCache(window_seconds=120, max_series=4)
    for second in range(1, 301):
        cache.append(float(second), {NODE: UsageSample(second, 1.0)})
    assert cpu(cache, NODE, 300.0, 120) == list(range(181, 301))
    assert cpu(cache, NODE, 300.0, 121) == pytest.approx([150.5, 210.5, 270.5])  # of minutes that end inside


def test_a_pod_has_long_windows_as_soon_as_the_row_of_an_ended_one_is_free():
    cache = LongWindowCache(window_seconds=60.0, interval_seconds=15.0, max_series=1)  # four appends a minute
    now = 0.0
    for name, appends in ((pod("ended"), 8), (None, 52), (pod("new"), 8)):
        for _ in range(appends):
            now += 15.0
            cache.append(now, {name: ONE} if name else {})
    assert cache.keys() == [pod("new")]
    assert [value for value in cpu(cache, pod("new"), now, 3600.0) if value == 1.0] == [1.0, 1.0]


def test_a_series_is_forgotten_with_its_last_sample_although_the_clock_went_back():
    cache = RingCache(window_seconds=60)
    for stamp in range(1001, 1061):
        cache.append(float(stamp), {pod("ended"): ONE})
    for stamp in range(1, 61):
        assert cache.keys() == [pod("ended")]
        cache.append(float(stamp), {})
    assert cache.keys() == []


def test_samples_between_those_of_a_window_that_the_clock_stepped_out_of_are_left_out():
    cache = RingCache(window_seconds=10)
    for stamp in (10.0, 100.0, 50.0, 101.0, 20.0):
        cache.append(stamp, {NODE: UsageSample(stamp, 1.0), SYSTEM: UsageSample(2 * stamp, 1.0)})
    found = cache.samples([NODE, SYSTEM], Window(101.0, 5.0))
    assert found.at_seconds.tolist() == [100.0, 101.0]
    assert found.values[0].tolist() == [[100.0, 101.0], [200.0, 202.0]]


def test_only_the_kept_series_have_rows():
    cache = RingCache(max_series=2)
    cache.append(1.0, {pod("a"): ONE, pod("b"): ONE, NODE: ONE})
    cache.keep_only([pod("b"), NODE])
    assert cache.keys() == [pod("b"), NODE]
    cache.append(2.0, {pod("c"): ONE, pod("d"): ONE})
    assert cache.keys() == [pod("b"), NODE, pod("c")]
    assert cache.refused_samples == 1


def test_a_pod_has_ended_five_minutes_after_its_last_sample():
    cache = RingCache()
    for second in range(1, 361):
        held = cache.keys()
        assert held == ([pod("ended")] if second > 60 else [])
        cache.append(float(second), {pod("ended"): ONE} if second == 60 else {})
    assert cache.keys() == []


def test_the_largest_number_that_a_ring_holds_is_a_sample():
    largest = float(np.finfo(np.float32).max)
    cache = RingCache()
    cache.append(1.0, {NODE: UsageSample(largest, largest)})
    assert cache.samples([NODE], Window(1.0, 1.0)).values[:, 0, 0].tolist() == [largest, largest]


@pytest.mark.parametrize("least", [UsageSample(0.5, 0.0), UsageSample(0.0, 0.5), UsageSample(0.0, 0.0)])
def test_zero_is_a_usage_of_node_system_and_pods(least):
    found = series_of(Snapshot(1.0, node=least, system=least, pods={"a": least}), {}, Reserved(0.0, 0.0))
    assert (found[NODE], found[SYSTEM], found[pod("a")]) == (least, least, least)
    assert found[SeriesKey(SeriesKind.CLASS, CLASSES[0])] == least


def test_a_store_holds_containers_only_on_request():
    assert MetricStore(60.0, 10, {}).containers is None
    assert MetricStore(60.0, 10, {}, holds_containers=True).containers is not None
