"""All rings of the agent: predicted series, containers, and the own series of each collector."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from koordlet.collectors.interface import RingShape
from koordlet.collectors.pod_usage import CONTAINER_TICKS
from koordlet.metric_cache import aggregation
from koordlet.metric_cache.aggregation import TimeWindow, UsageStatistic, WindowSamples
from koordlet.metric_cache.ring import LongWindowCache, RingCache
from koordlet.samples import SeriesKey, SeriesKind, Snapshot, UsageSample


class ContainerRing:
    """Gathers the containers of a round, and caches them with the time of its last tick.

    Containers are measured in turns, each every `CONTAINER_TICKS` ticks. A ring with a slot per tick would be four
    fifths empty: 11 KB per container. No decision depends on it; the debug page shows it.
    """

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


class MetricStore:
    """Caches `window_seconds` of samples. `rings` is keyed by the name of the collector."""

    def __init__(
        self, window_seconds: float, max_series: int, rings: Mapping[str, RingShape], holds_containers: bool = False
    ) -> None:
        self.series = LongWindowCache(window_seconds, max_series=max_series)
        """Node, system, priority classes and pods, one sample a tick."""
        self.containers = ContainerRing(window_seconds, max_series) if holds_containers else None
        """None where containers are not measured."""
        self.of_collectors = {
            name: LongWindowCache(window_seconds, shape.interval_ticks, shape.max_series)
            for name, shape in rings.items()
        }
        """Name of a collector -> the series of its own."""
        self._window_seconds = window_seconds

    @property
    def series_count(self) -> int:
        """Number of series in memory, without those of `of_collectors`."""
        return sum(ring.series_count for ring in self._main_rings())

    @property
    def refused_samples(self) -> int:
        """Number of samples refused because there were too many series."""
        return sum(ring.refused_samples for ring in self._main_rings())

    def _main_rings(self) -> Sequence[RingCache]:
        return (self.series.ring,) if self.containers is None else (self.series.ring, self.containers.cache)

    def append(self, snapshot: Snapshot, series: Mapping[SeriesKey, UsageSample]) -> None:
        """Add the samples of one tick. `series` are those derived from the snapshot."""
        self.series.append(snapshot.at_seconds, series)
        if self.containers is not None:
            self.containers.append(snapshot.at_seconds, snapshot.containers)
        for name, samples in snapshot.series.items():
            self.of_collectors[name].append(snapshot.at_seconds, samples)

    def shift(self, seconds: float) -> None:
        """Move the times of all samples after a step of the clock: a window reaches back by age, not by calendar."""
        for ring in (self.series, *self.of_collectors.values()):
            ring.shift(seconds)
        if self.containers is not None:
            self.containers.cache.shift(seconds)

    def means(self, until_seconds: float, window_seconds: float) -> dict[SeriesKey, UsageSample]:
        """Return the mean of each of `series` over a window; series without a sample in it are missing."""
        return self._aggregate(until_seconds, window_seconds, UsageStatistic.AVG)

    def p90(self, until_seconds: float, window_seconds: float) -> dict[SeriesKey, UsageSample]:
        """Return the 90th percentile of each of `series` over a window; series without a sample in it are missing."""
        return self._aggregate(until_seconds, window_seconds, UsageStatistic.P90)

    def cached(self, until_seconds: float) -> WindowSamples:
        """Return every cached sample of `series`."""
        return self.series.samples(self.series.keys(), TimeWindow(until_seconds, self._window_seconds))

    def _aggregate(
        self, until_seconds: float, window_seconds: float, statistic: UsageStatistic
    ) -> dict[SeriesKey, UsageSample]:
        keys = self.series.keys()
        samples = self.series.samples(keys, TimeWindow(until_seconds, window_seconds))
        aggregates = aggregation.aggregate(samples, (statistic,))
        return {key: usage for key in keys if (usage := aggregates.usage(statistic, key)) is not None}
