"""A metric cache for long windows: a ring of all recent samples, and beside it 12 hours of means over a minute.

A window that the first ring covers is answered from its samples. A longer one consists of means over a minute, the
newest of which may be shorter: the average is that of all samples, percentiles and deviation are those of the means.
Until the first ring overwrites a sample it has everything there is, and answers every window.

A minute is a number of appends. So a step of the clock during a minute does not change its mean, which has the time
stamp of its last append.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from api_types.colocation.controller_config import LONGEST_WINDOW_SECONDS
from koordlet.metric_cache.interface import TimeWindow, WindowSamples
from koordlet.metric_cache.ring import RingCache
from koordlet.samples import SeriesKey, UsageSample

MEAN_SECONDS: Final = 60.0


class LongWindowCache:
    """`MetricCache` over two rings. A series without a sample in the whole first ring is in neither of them."""

    def __init__(self, window_seconds: float = 1800.0, interval_seconds: float = 1.0, max_series: int = 1500) -> None:
        self.ring = RingCache(window_seconds, interval_seconds, max_series)
        self._means = RingCache(LONGEST_WINDOW_SECONDS, MEAN_SECONDS, max_series)
        self._window_seconds = window_seconds
        self._appends_a_mean = round(MEAN_SECONDS / interval_seconds)
        self._open_appends = 0
        """Appends since the last mean."""
        self._newest_seconds = 0.0

    def append(self, at_seconds: float, samples: Mapping[SeriesKey, UsageSample]) -> None:
        """Add the samples of one instant (see `MetricCache`)."""
        self.ring.append(at_seconds, samples)
        self._newest_seconds = at_seconds
        self._open_appends += 1
        if self._open_appends == self._appends_a_mean:
            keys = self.keys()
            means = self.ring.newest_means(keys, self._open_appends)
            self._means.keep_only(keys)
            self._means.append(at_seconds, dict(zip(keys, map(UsageSample, *means.tolist()), strict=True)))
            self._open_appends = 0

    def shift(self, seconds: float) -> None:
        """Move the times of all samples after a step of the clock."""
        for ring in (self.ring, self._means):
            ring.shift(seconds)
        self._newest_seconds += seconds

    def keys(self) -> list[SeriesKey]:
        """Return the cached series (see `MetricCache`)."""
        return self.ring.keys()

    def samples(self, keys: Sequence[SeriesKey], window: TimeWindow) -> WindowSamples:
        """Return the samples of these series in the window, or means of them (see `MetricCache`)."""
        if window.seconds <= self._window_seconds or self.ring.holds_everything:
            return self.ring.samples(keys, window)
        means = self._means.samples(keys, window)
        at_seconds, values = means.at_seconds, means.values
        weights = np.full(len(at_seconds), float(self._appends_a_mean))
        is_inside = window.until_seconds - window.seconds < self._newest_seconds <= window.until_seconds
        if self._open_appends > 0 and is_inside:
            newest = self.ring.newest_means(keys, self._open_appends)
            at_seconds = np.append(at_seconds, self._newest_seconds)
            values = np.concatenate((values, newest[..., np.newaxis]), axis=-1)
            weights = np.append(weights, float(self._open_appends))
        return WindowSamples(window, tuple(keys), at_seconds, values, weights)
