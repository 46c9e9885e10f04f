"""The recent past of every container, one sample a round of turns.

Containers are measured by turns, each every `CONTAINER_TICKS` ticks. A ring with a slot a tick would be four fifths
empty: 11 KB a container. Nothing is decided by it; it is shown.
"""

from __future__ import annotations

from collections.abc import Mapping

from koordlet.collectors.pod_usage import CONTAINER_TICKS
from koordlet.metric_cache.interface import Window, WindowSamples
from koordlet.metric_cache.ring import RingCache
from koordlet.samples import SeriesKey, SeriesKind, UsageSample


class ContainerHistory:
    """Gathers the containers of a round, and remembers them as of its last tick."""

    def __init__(self, window_seconds: float, max_containers: int) -> None:
        self.cache = RingCache(window_seconds, CONTAINER_TICKS, max_containers)
        self._window_seconds = window_seconds
        self._round: dict[SeriesKey, UsageSample] = {}
        self._ticks = 0

    def append(self, at_seconds: float, containers: Mapping[str, UsageSample]) -> None:
        """Add what one tick measured, by container id."""
        self._round |= {SeriesKey(SeriesKind.CONTAINER, identity): usage for identity, usage in containers.items()}
        self._ticks += 1
        if self._ticks % CONTAINER_TICKS == 0:
            self.cache.append(at_seconds, self._round)
            self._round = {}

    def held(self, until_seconds: float) -> WindowSamples:
        """Every sample held."""
        return self.cache.samples(self.cache.keys(), Window(until_seconds, self._window_seconds))
