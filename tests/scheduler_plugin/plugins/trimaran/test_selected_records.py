"""Records of a node that are selected as its mean and deviation."""

import math

import pytest

from scheduler_plugin.load_watcher.records import Data, Metric, MetricType, NodeMetrics, Snapshot, Window
from scheduler_plugin.load_watcher.windows import Windows
from scheduler_plugin.plugins.trimaran import measurements
from scheduler_plugin.plugins.trimaran.measurements import Measurements, utilization

WINDOW = Window("15m", 100, 1000)


def records(*given):
    return [Metric(type=kind, operator=how, value=value) for kind, how, value in given]


@pytest.mark.parametrize(
    ("given", "mean", "deviation", "is_measured", "is_valid"),
    [
        ([], 0.0, 0.0, False, False),
        ([("Memory", "AVG", 50.0)], 0.0, 0.0, False, False),
        ([("CPU", "STD", 5.0)], 0.0, 5.0, False, True),
        ([("CPU", "AVG", 10.0)], 10.0, 0.0, True, True),
        ([("CPU", "AVG", 10.0), ("CPU", "AVG", 20.0), ("CPU", "Latest", 30.0)], 20.0, 0.0, True, True),
        ([("CPU", "Latest", 10.0), ("CPU", "", 20.0)], 20.0, 0.0, True, True),
        ([("CPU", "STD", 5.0), ("CPU", "STD", 6.0), ("CPU", "AVG", 10.0)], 10.0, 6.0, True, True),
    ],
)
def test_the_last_average_is_the_mean_else_the_last_latest_value(given, mean, deviation, is_measured, is_valid):
    found = utilization(records(*given), MetricType.CPU, WINDOW, "NodeMetric")
    assert (found.mean, found.deviation, found.is_measured, found.is_valid) == (mean, deviation, is_measured, is_valid)
    assert found.end == (1000 if is_measured else -math.inf)
    assert (found.window_seconds, found.source) == (900, "NodeMetric")


def test_the_plugins_of_upstream_read_the_first_and_the_last_record_of_cpu():
    given = [("CPU", "STD", 1.0), ("CPU", "Latest", 10.0), ("Memory", "AVG", 99.0), ("CPU", "AVG", 20.0)]
    node = NodeMetrics(records(*given, ("CPU", "", 30.0)))
    found = measurements.read(node, Snapshot(1000, WINDOW, "NodeMetric"))
    assert (found.packing_percent, found.power_percent) == (20.0, 10.0)
    assert found.is_complete
    nothing = measurements.read(
        NodeMetrics(records(("CPU", "STD", 1.0), ("Memory", "AVG", 2.0))), Snapshot(1000, WINDOW, "NodeMetric")
    )
    assert math.isnan(nothing.packing_percent)
    assert math.isnan(nothing.power_percent)
    assert not nothing.is_complete


def test_a_node_with_a_window_of_its_own_is_read_with_it():
    node = NodeMetrics(records(("CPU", "AVG", 1.0)), window=Window("5m", 500, 800))
    found = measurements.read(node, Snapshot(1000, WINDOW, "NodeMetric")).cpu
    assert (found.end, found.window_seconds) == (800, 300)


def selected(*snapshots):
    """Return the measurements of two snapshots of one window, the older one first; the values are by node."""
    windows, found = Windows(math.inf), Measurements(300.0)
    for age, nodes in zip((60, 0), snapshots, strict=True):
        window = Window("15m", 100 - age, 1000 - age)
        data = Data({name: NodeMetrics(records(*given)) for name, given in nodes.items()})
        windows.store(Snapshot(window.end, window, "NodeMetric", data))
    found.select(windows, 1000)
    return found


BOTH = [("CPU", "AVG", 10.0), ("Memory", "AVG", 10.0)]


def test_a_node_that_is_complete_does_not_keep_the_others_of_an_older_snapshot_out():
    found = selected({"complete": BOTH, "older": BOTH}, {"complete": BOTH})
    assert found.of("complete").cpu.end == 1000
    assert found.of("older").cpu.end == 940


@pytest.mark.parametrize(
    ("older", "newer", "deviation", "is_measured"),
    [
        (("CPU", "STD", 3.0), ("CPU", "STD", 5.0), 5.0, False),
        (("Memory", "AVG", 3.0), ("CPU", "STD", 5.0), 5.0, False),
        (("CPU", "STD", 3.0), ("Memory", "AVG", 5.0), 3.0, False),
        (("CPU", "AVG", 3.0), ("CPU", "STD", 5.0), 0.0, True),
        (("CPU", "AVG", 3.0), ("Memory", "AVG", 5.0), 0.0, True),
    ],
)
def test_records_without_a_mean_count_until_an_older_window_has_one(older, newer, deviation, is_measured):
    cpu = selected({"n": [older]}, {"n": [newer]}).of("n").cpu
    assert (cpu.deviation, cpu.is_measured, cpu.is_valid) == (deviation, is_measured, True)


@pytest.mark.parametrize("newer", [("Memory", "AVG", 5.0), ("CPU", "STD", 5.0)])
def test_the_records_of_upstream_are_of_the_window_that_the_cpu_is_of(newer):
    found = selected({"n": [("CPU", "AVG", 3.0), ("CPU", "Latest", 4.0)]}, {"n": [newer]}).of("n")
    assert (found.power_percent, found.packing_percent) == (3.0, 4.0)
    found = selected({"n": [("CPU", "AVG", 3.0)]}, {"n": [("CPU", "Latest", 9.0)]}).of("n")
    assert (found.power_percent, found.packing_percent) == (9.0, 9.0)


def test_a_kept_mean_keeps_its_records_of_upstream():
    found = selected({"n": [("CPU", "AVG", 3.0)]}, {"n": [("Memory", "AVG", 5.0)]})
    windows, window = Windows(math.inf), Window("15m", 101, 1001)
    windows.store(Snapshot(1001, window, "NodeMetric", Data({"n": NodeMetrics(records(("Memory", "AVG", 6.0)))})))
    found.select(windows, 1001)
    assert (found.of("n").memory.mean, found.of("n").packing_percent) == (6.0, 3.0)
