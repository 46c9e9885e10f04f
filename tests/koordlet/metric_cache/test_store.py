"""All rings of the agent together."""

import pytest

from koordlet.collectors.interface import RingShape
from koordlet.metric_cache.aggregation import TimeWindow
from koordlet.metric_cache.store import MetricStore
from koordlet.samples import NODE, Snapshot, UsageSample

START = 1.7e9
OWN = "own"
USAGE = UsageSample(1.0, 2.0)


@pytest.mark.parametrize("step_seconds", [3600.0, -3600.0])
def test_a_step_of_the_clock_moves_the_samples_of_every_ring(step_seconds):
    store = MetricStore(1800.0, 10, {OWN: RingShape(1, 10)})
    for tick in range(2):
        store.append(Snapshot(START + tick, USAGE, USAGE, series={OWN: {NODE: USAGE}}), {NODE: USAGE})
    store.shift(step_seconds)
    last = START + 1 + step_seconds
    newest = [
        store.cached(last).at_seconds[-1],
        store.of_collectors[OWN].samples((NODE,), TimeWindow(last, 1800.0)).at_seconds[-1],
    ]
    assert newest == [last] * 2
