"""Measurements at their age limit, and those that a later selection keeps."""

import math

import pytest

from scheduler_plugin.load_watcher.records import Data, Metric, NodeMetrics, Snapshot, Window
from scheduler_plugin.load_watcher.windows import Windows
from scheduler_plugin.plugins.trimaran.measurements import Measurements

NOW = 1_700_000_000.0
LIMIT = 300.0


def measured(cpu=None, memory=None):
    given = [("CPU", cpu), ("Memory", memory)]
    return NodeMetrics([Metric(type=kind, operator="AVG", value=value) for kind, value in given if value is not None])


def windows_of(node, end):
    windows = Windows(math.inf)
    windows.store(Snapshot(end, Window("15m", end - 900, end), "NodeMetric", Data({"n": node})))
    return windows


@pytest.mark.parametrize(("age", "is_selected"), [(LIMIT, True), (LIMIT + 1, False)])
def test_a_window_is_selected_up_to_the_age_limit(age, is_selected):
    measurements = Measurements(LIMIT)
    measurements.select(windows_of(measured(20.0, 30.0), NOW - age), NOW)
    assert (measurements.of("n") is not None) is is_selected


def test_a_node_without_any_record_in_a_fresh_window_has_no_measurement():
    measurements = Measurements(LIMIT)
    measurements.select(windows_of(NodeMetrics(), NOW), NOW)
    assert measurements.of("n") is None


@pytest.mark.parametrize(("age", "is_kept"), [(LIMIT, True), (LIMIT + 1, False)])
def test_a_measurement_that_no_window_has_any_longer_is_kept_up_to_the_age_limit(age, is_kept):
    measurements = Measurements(LIMIT)
    measurements.select(windows_of(measured(20.0, 30.0), NOW), NOW)
    measurements.select(Windows(math.inf), NOW + age)
    assert (measurements.of("n") is not None) is is_kept


def test_each_resource_is_kept_as_long_as_its_own_window():
    measurements = Measurements(LIMIT)
    measurements.select(windows_of(measured(cpu=20.0), NOW), NOW)
    measurements.select(windows_of(measured(memory=30.0), NOW + 200), NOW + 200)
    both = measurements.of("n")
    assert (both.cpu.mean, both.memory.mean) == (20.0, 30.0)
    measurements.select(Windows(math.inf), NOW + 301)
    memory_alone = measurements.of("n")
    assert (memory_alone.cpu.is_measured, memory_alone.cpu.is_valid, memory_alone.memory.mean) == (False, False, 30.0)
    assert (memory_alone.cpu.mean, memory_alone.cpu.deviation, memory_alone.cpu.window_seconds) == (0.0, 0.0, 0.0)


def test_a_resource_without_any_record_is_neither_valid_nor_rejected():
    measurements = Measurements(LIMIT)
    measurements.select(windows_of(measured(cpu=20.0), NOW), NOW)
    found = measurements.of("n")
    assert (found.cpu.is_valid, found.cpu.is_rejected, found.cpu.window_seconds) == (True, False, 900)
    assert (found.memory.is_valid, found.memory.is_rejected, found.memory.end) == (False, False, -math.inf)


def test_the_newest_ends_stay_where_no_window_is_left():
    measurements = Measurements(LIMIT)
    measurements.select(windows_of(measured(20.0, 30.0), NOW), NOW)
    assert measurements.newest_ends == (-math.inf, -math.inf)
    measurements.confirm_rows()
    assert measurements.newest_ends == (NOW, NOW)
    measurements.select(Windows(math.inf), NOW + LIMIT + 1)
    measurements.confirm_rows()
    assert measurements.newest_ends == (NOW, NOW)


def test_a_complete_node_is_not_changed_by_older_windows_and_an_incomplete_one_keeps_its_newer_cpu():
    windows = windows_of(measured(20.0, 30.0), NOW - 100)
    window = Window("15m", NOW - 900, NOW)
    windows.store(Snapshot(NOW, window, "NodeMetric", Data({"n": measured(cpu=40.0)})))
    measurements = Measurements(LIMIT)
    measurements.select(windows, NOW)
    found = measurements.of("n")
    assert (found.cpu.mean, found.memory.mean, found.packing_percent, found.power_percent) == (40.0, 30.0, 40.0, 40.0)
    assert (found.cpu.end, found.memory.end) == (NOW, NOW - 100)
