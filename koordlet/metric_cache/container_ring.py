"""Ring of container samples, one sample per round of turns.

Containers are measured in turns, each every `CONTAINER_TICKS` ticks. A ring with a slot per tick would be four fifths
empty: 11 KB per container. No decision depends on it; the debug page shows it.
"""

from __future__ import annotations

from collections.abc import Mapping

from koordlet.collectors.pod_usage import CONTAINER_TICKS
from koordlet.metric_cache.interface import TimeWindow, WindowSamples
from koordlet.metric_cache.ring import RingCache
from koordlet.samples import SeriesKey, SeriesKind, UsageSample


class ContainerRing:
    """Gathers the containers of a round, and caches them with the time of its last tick."""

    def __init__(self, window_seconds: float, max_containers: int) -> None:
        self.cache = RingCache(window_seconds, CONTAINER_TICKS, max_containers)
        self._window_seconds = window_seconds
        self._round: dict[SeriesKey, UsageSample] = {}
        self._ticks = 0

    def append(self, at_seconds: float, containers: Mapping[str, UsageSample]) -> None:
        """Add the samples of one tick, by container id."""
        self._round |= {SeriesKey(SeriesKind.CONTAINER, identity): usage for identity, usage in containers.items()}
        self._ticks += 1
        if self._ticks % CONTAINER_TICKS == 0:
            self.cache.append(at_seconds, self._round)
            self._round = {}

    def cached(self, until_seconds: float) -> WindowSamples:
        """Return every cached sample."""
        return self.cache.samples(self.cache.keys(), TimeWindow(until_seconds, self._window_seconds))
