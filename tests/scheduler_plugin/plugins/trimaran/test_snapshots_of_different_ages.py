"""Measurements of nodes that snapshots of different ages have."""

import math

from scheduler_plugin.load_watcher.records import Data, Metric, NodeMetrics, Snapshot, Window
from scheduler_plugin.load_watcher.windows import Windows
from scheduler_plugin.plugins.trimaran.measurements import Measurements


def both(value):
    return NodeMetrics([Metric(type=kind, operator="AVG", value=value) for kind in ("CPU", "Memory")])


def selected(*snapshots):
    """Return the measurements of snapshots of one window, one each minute, the oldest first; the last ends at 1000."""
    windows, found = Windows(math.inf), Measurements(300.0)
    for age, nodes in zip(range(60 * (len(snapshots) - 1), -1, -60), snapshots, strict=True):
        window = Window("15m", 100 - age, 1000 - age)
        data = Data({name: both(value) for name, value in nodes.items()})
        windows.store(Snapshot(window.end, window, "NodeMetric", data))
    found.select(windows, 1000)
    return found


def test_a_node_that_the_newest_snapshot_lacks_has_the_next_older_one():
    found = selected({"n": 1.0}, {"n": 2.0}, {"n": 3.0}, {"other": 4.0})
    assert (found.of("n").cpu.mean, found.of("n").cpu.end) == (3.0, 940)


def test_the_newest_end_is_that_of_the_node_that_was_measured_last():
    found = selected({"older": 1.0}, {"newer": 2.0})
    found.confirm_rows()
    assert found.newest_ends == (1000, 1000)
