"""All rings of the agent: predicted series, and the own series of each collector."""

from __future__ import annotations

from collections.abc import Mapping

from koordlet.collectors.interface import RingShape
from koordlet.metric_cache import aggregation
from koordlet.metric_cache.aggregation import TimeWindow, UsageStatistic, WindowSamples
from koordlet.metric_cache.ring import LongWindowCache
from koordlet.samples import SeriesKey, Snapshot, UsageSample


class MetricStore:
    """Caches `window_seconds` of samples. `rings` is keyed by the name of the collector."""

    def __init__(self, window_seconds: float, max_series: int, rings: Mapping[str, RingShape]) -> None:
        self.series = LongWindowCache(window_seconds, max_series=max_series)
        """Node, system, priority classes and pods, one sample a tick."""
        self.of_collectors = {
            name: LongWindowCache(window_seconds, shape.interval_ticks, shape.max_series)
            for name, shape in rings.items()
        }
        """Name of a collector -> the series of its own."""
        self._window_seconds = window_seconds

    @property
    def series_count(self) -> int:
        """Number of series in memory, without those of `of_collectors`."""
        return self.series.ring.series_count

    @property
    def refused_samples(self) -> int:
        """Number of samples refused because there were too many series."""
        return self.series.ring.refused_samples

    def append(self, snapshot: Snapshot, series: Mapping[SeriesKey, UsageSample]) -> None:
        """Add the samples of one tick. `series` are those derived from the snapshot."""
        self.series.append(snapshot.at_seconds, series)
        for name, samples in snapshot.series.items():
            self.of_collectors[name].append(snapshot.at_seconds, samples)

    def shift(self, seconds: float) -> None:
        """Move the times of all samples after a step of the clock: a window reaches back by age, not by calendar."""
        for ring in (self.series, *self.of_collectors.values()):
            ring.shift(seconds)

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
