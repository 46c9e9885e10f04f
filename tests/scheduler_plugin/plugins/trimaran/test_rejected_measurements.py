"""Measurements whose records were dropped, beside those of other windows."""

import pytest

from scheduler_plugin.load_watcher.records import Data, Metric, NodeMetrics, Snapshot, Window
from scheduler_plugin.load_watcher.windows import Windows
from scheduler_plugin.plugins.trimaran.measurements import Measurements

NOW = 1_700_000_000
MEASURED = NodeMetrics([Metric(type="CPU", operator="AVG", value=20.0)])
REJECTED = NodeMetrics(rejected=["CPU"])
NOTHING = NodeMetrics([Metric(type="Memory", operator="AVG", value=20.0)])


@pytest.mark.parametrize(
    ("longest", "shorter", "is_measured", "is_rejected"),
    [
        (REJECTED, MEASURED, True, False),
        (MEASURED, REJECTED, True, False),
        (REJECTED, NOTHING, False, True),
        (NOTHING, REJECTED, False, True),
        (NOTHING, NOTHING, False, False),
    ],
)
def test_a_resource_is_rejected_where_no_window_has_it_and_one_had_records(longest, shorter, is_measured, is_rejected):
    windows = Windows(300.0)
    for duration, seconds, node in (("15m", 900, longest), ("10m", 600, shorter)):
        window = Window(duration, NOW - seconds, NOW)
        windows.store(Snapshot(NOW, window, "NodeMetric", Data({"n": node})))
    measurements = Measurements()
    measurements.select(windows, NOW)
    cpu = measurements.of("n").cpu
    assert (cpu.is_measured, cpu.is_rejected) == (is_measured, is_rejected)
