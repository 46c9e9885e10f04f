"""Rings of containers: a round of turns is one column."""

import numpy as np

from koordlet.collectors.pod_usage import CONTAINER_TICKS
from koordlet.metric_cache.container_ring import ContainerRing
from koordlet.samples import UsageSample


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
