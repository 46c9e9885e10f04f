"""The metric cache on which decisions are based: a ring of fixed size in the memory of this process.

One row for each series, one column ("slot") for each append; the newest append overwrites the oldest. A new series
takes a row, and an ended series returns it to a free list: a pod without a sample for five minutes, any
other series without a sample in the whole window. The array has its full size from the start, and the kernel provides
memory when rows are first used: 14 KB per series at 1,800 slots.

float32 has 24 bits, a relative error below 1e-7: less than the accuracy of the counters.

Clocks step. Slots are in the order of appending, and a query selects by time stamp. After a step back, samples stamped
in the future are invisible until that time; after a step forward, earlier samples appear older than they are.
"""

from __future__ import annotations

import itertools
import math
import threading
from collections.abc import Collection, Mapping, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from api_types.colocation.controller_config import LONGEST_WINDOW_SECONDS
from koordlet.metric_cache.aggregation import TimeWindow, WindowSamples, average
from koordlet.samples import RESOURCES, SeriesKey, SeriesKind, UsageSample

_UNCOUNTED_SERIES = 32
"""Rows for the dozen series of node, system and classes, so that pods never displace them."""

_LARGEST = float(np.finfo(np.float32).max)

_ENDED_SECONDS = 300.0
"""Time without a sample after which a pod has ended; its cgroup exists while it waits for a restart."""

_EXPIRY_APPENDS = 60
"""Appends between two searches for ended series: rows are not needed back sooner."""


class RingCache:
    """Metric cache over a ring. Threads may share it.

    It holds `window_seconds` at one append every `interval_seconds` (fewer seconds if appends are more frequent, more
    if less frequent). `max_series` limits the cached pods; samples of more are refused and counted.
    """

    def __init__(self, window_seconds: float = 1800.0, interval_seconds: float = 1.0, max_series: int = 1500) -> None:
        self.refused_samples = 0
        """Samples of pods without a row, since the start."""
        self._window_seconds = window_seconds
        self._max_series = max_series
        self._slots = math.ceil(window_seconds / interval_seconds)
        rows = max_series + _UNCOUNTED_SERIES
        self._no_row = rows
        """A row for the samples of refused series, which no query reads."""
        self._at_seconds = np.zeros(self._slots, np.float64)
        self._values = np.empty((len(RESOURCES), rows + 1, self._slots), np.float32)
        self._last_append = np.zeros(rows + 1, np.int64)
        self._last_seconds = np.zeros(rows + 1, np.float64)
        self._rows: dict[SeriesKey, int] = {}
        self._free = list(reversed(range(rows)))
        self._rows_ever_used = 0
        self._counted = 0
        self._appends = 0
        self._lock = threading.Lock()

    @property
    def series_count(self) -> int:
        """Number of cached series."""
        return len(self._rows)

    def append(self, at_seconds: float, samples: Mapping[SeriesKey, UsageSample]) -> None:
        """Add the samples of one instant. A value that is not a finite number of at least zero is no sample."""
        with self._lock:
            slot = self._appends % self._slots
            self._appends += 1
            self._at_seconds[slot] = at_seconds
            self._values[:, : self._rows_ever_used, slot] = np.nan
            row_by_key = self._rows.get
            taken = [self._take_row(key) if (row := row_by_key(key)) is None else row for key in samples]
            self.refused_samples += taken.count(self._no_row)
            rows = np.array(taken, np.intp)
            self._values[:, rows, slot] = _clean(samples.values())
            self._last_append[rows] = self._appends
            self._last_seconds[rows] = at_seconds
            if self._appends % _EXPIRY_APPENDS == 0:
                self._expire(at_seconds)

    def shift(self, seconds: float) -> None:
        """Move the times of all samples after a step of the clock, so that their ages stay what they are."""
        with self._lock:
            self._at_seconds += seconds
            self._last_seconds += seconds

    @property
    def holds_everything(self) -> bool:
        """Whether no append has been overwritten yet."""
        return self._appends <= self._slots

    def newest_means(self, keys: Sequence[SeriesKey], appends: int) -> NDArray[np.float64]:
        """Return [resource, series]: the mean of the newest appends of each cached series, whatever their times."""
        with self._lock:
            numbers = np.arange(max(self._appends - min(appends, self._slots), 0), self._appends)
            means = np.full((len(RESOURCES), len(keys)), np.nan)
            cached = [index for index, key in enumerate(keys) if key in self._rows]
            if len(numbers) > 0 and cached:
                means[:, cached] = average(self._recorded([self._rows[keys[index]] for index in cached], numbers))
            return means

    def keep_only(self, keys: Collection[SeriesKey]) -> None:
        """Free the rows of all other series."""
        with self._lock:
            for key in self._rows.keys() - set(keys):
                self._release(key)

    def keys(self) -> list[SeriesKey]:
        """Return the cached series, the oldest first."""
        with self._lock:
            return list(self._rows)

    def samples(self, keys: Sequence[SeriesKey], window: TimeWindow) -> WindowSamples:
        """Return the samples of these series in the window; a series that is not cached has none."""
        with self._lock:
            first = max(self._appends - self._slots, 0)
            stamps = self._at_seconds[np.arange(first, self._appends) % self._slots]
            inside = (stamps > window.until_seconds - window.seconds) & (stamps <= window.until_seconds)
            numbers = first + np.flatnonzero(inside)
            cached = [index for index, key in enumerate(keys) if key in self._rows]
            values = np.full((len(RESOURCES), len(keys), len(numbers)), np.nan, np.float32)
            if len(numbers) > 0 and cached:
                values[:, cached] = self._recorded([self._rows[keys[index]] for index in cached], numbers)
            return WindowSamples(window, tuple(keys), stamps[inside], values)

    def _recorded(self, rows: Sequence[int], numbers: NDArray[np.intp]) -> NDArray[np.float32]:
        """Return [resource, row, number]: the values of some appends, by ascending number, copied in whole runs."""
        start, stop = int(numbers[0]) % self._slots, int(numbers[-1]) % self._slots + 1
        if start < stop:
            values = self._values[:, rows, start:stop]
        else:
            values = np.concatenate((self._values[:, rows, start:], self._values[:, rows, :stop]), axis=-1)
        return values if values.shape[-1] == len(numbers) else values[..., numbers - numbers[0]]

    def _take_row(self, key: SeriesKey) -> int:
        counted = key.kind is SeriesKind.POD
        if not self._free or (counted and self._counted >= self._max_series):
            return self._no_row
        row = self._rows[key] = self._free.pop()
        self._values[:, row] = np.nan
        self._rows_ever_used = max(self._rows_ever_used, row + 1)
        self._counted += counted
        return row

    def _expire(self, now_seconds: float) -> None:
        """Free the rows of ended series, and of those without a sample in all slots."""
        for key, row in list(self._rows.items()):
            appends_ago = self._appends - self._last_append[row]
            kept_seconds = self._window_seconds
            if key.kind is SeriesKind.POD:
                kept_seconds = min(kept_seconds, _ENDED_SECONDS)
            if appends_ago >= self._slots or now_seconds - self._last_seconds[row] >= kept_seconds:
                self._release(key)

    def _release(self, key: SeriesKey) -> None:
        self._free.append(self._rows.pop(key))
        self._counted -= key.kind is SeriesKind.POD


def _clean(samples: Collection[UsageSample]) -> NDArray[np.float64]:
    """Return [resource, sample], with NaN for values that are not usage."""
    flat = np.fromiter(itertools.chain.from_iterable(samples), np.float64, len(RESOURCES) * len(samples))
    values = flat.reshape(-1, len(RESOURCES)).T
    return np.where((values >= 0) & (values <= _LARGEST), values, np.nan)


MEAN_SECONDS: Final = 60.0


class LongWindowCache:
    """Metric cache for long windows: a ring of all recent samples, and beside it 12 hours of means over a minute.

    A series without a sample in the whole first ring is in neither of them.

    A window that the first ring covers is answered from its samples. A longer one consists of means over a minute, the
    newest of which may be shorter: the average is that of all samples, percentiles and deviation are those of the
    means. Until the first ring overwrites a sample it has everything there is, and answers every window.

    A minute is a number of appends. So a step of the clock during a minute does not change its mean, which has the time
    stamp of its last append.
    """

    def __init__(self, window_seconds: float = 1800.0, interval_seconds: float = 1.0, max_series: int = 1500) -> None:
        self.ring = RingCache(window_seconds, interval_seconds, max_series)
        self._means = RingCache(LONGEST_WINDOW_SECONDS, MEAN_SECONDS, max_series)
        self._window_seconds = window_seconds
        self._appends_a_mean = round(MEAN_SECONDS / interval_seconds)
        self._open_appends = 0
        """Appends since the last mean."""
        self._newest_seconds = 0.0

    def append(self, at_seconds: float, samples: Mapping[SeriesKey, UsageSample]) -> None:
        """Add the samples of one instant. A value that is not a finite number of at least zero is no sample."""
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
        """Return the cached series, the oldest first."""
        return self.ring.keys()

    def samples(self, keys: Sequence[SeriesKey], window: TimeWindow) -> WindowSamples:
        """Return the samples of these series in the window, or means of them."""
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
