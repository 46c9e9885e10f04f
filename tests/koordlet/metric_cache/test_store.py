"""All rings of the agent together."""

import numpy as np
import pytest

from koordlet.collectors.interface import RingShape
from koordlet.collectors.pod_usage import CONTAINER_TICKS
from koordlet.metric_cache.aggregation import TimeWindow
from koordlet.metric_cache.store import ContainerRing, MetricStore
from koordlet.samples import NODE, Snapshot, UsageSample

START = 1.7e9
OWN = "own"
USAGE = UsageSample(1.0, 2.0)


@pytest.mark.parametrize("step_seconds", [3600.0, -3600.0])
def test_a_step_of_the_clock_moves_the_samples_of_every_ring(step_seconds):
    store = MetricStore(1800.0, 10, {OWN: RingShape(1, 10)}, holds_containers=True)
    for tick in range(CONTAINER_TICKS):
        snapshot = Snapshot(START + tick, USAGE, USAGE, containers={"c": USAGE}, series={OWN: {NODE: USAGE}})
        store.append(snapshot, {NODE: USAGE})
    store.shift(step_seconds)
    last = START + CONTAINER_TICKS - 1 + step_seconds
    newest = [
        store.cached(last).at_seconds[-1],
        store.containers.cached(last).at_seconds[-1],
        store.of_collectors[OWN].samples((NODE,), TimeWindow(last, 1800.0)).at_seconds[-1],
    ]
    assert newest == [last] * 3


def rounds_of(ring, rounds, containers, first=0):
    """Measure each container in the tick of its turn, a tick a second."""
    for tick in range(first * CONTAINER_TICKS, (first + rounds) * CONTAINER_TICKS):
        turn = [name for index, name in enumerate(containers) if index % CONTAINER_TICKS == tick % CONTAINER_TICKS]
        ring.append(tick + 1.0, {name: UsageSample(float(tick), 7.0) for name in turn})


def test_a_round_is_one_column_in_which_every_container_has_its_own_value():
    ring = ContainerRing(1800.0, 100)
    names = [f"c{number}" for number in range(2 * CONTAINER_TICKS)]
    rounds_of(ring, 2, names)
    cached = ring.cached(2.0 * CONTAINER_TICKS)
    assert cached.at_seconds.tolist() == [CONTAINER_TICKS, 2 * CONTAINER_TICKS]
    found = {key.identity: cached.values[0, row].tolist() for row, key in enumerate(cached.keys)}
    turn = {name: index % CONTAINER_TICKS for index, name in enumerate(names)}
    assert found == {name: [turn[name], turn[name] + CONTAINER_TICKS] for name in names}


def test_a_container_that_ended_has_no_sample_in_later_rounds_and_is_forgotten_after_the_window():
    ring = ContainerRing(60.0, 100)
    rounds_of(ring, 1, ["a", "b"])
    rounds_of(ring, 1, ["a"], first=1)
    cached = ring.cached(2.0 * CONTAINER_TICKS)
    (row,) = (row for row, key in enumerate(cached.keys) if key.identity == "b")
    assert np.isnan(cached.values[:, row, -1]).all()
    rounds_of(ring, 60, ["a"], first=2)
    assert ring.cache.series_count == 1


def test_more_containers_than_there_is_room_for_are_refused_and_counted():
    ring = ContainerRing(1800.0, 3)
    rounds_of(ring, 1, ["a", "b", "c", "d"])
    assert (ring.cache.series_count, ring.cache.refused_samples) == (3, 1)
