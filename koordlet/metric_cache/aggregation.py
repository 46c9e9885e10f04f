"""Aggregates over the last axis of arrays of samples, where NaN is no sample.

Percentile p of n samples is the one at index max(trunc(float32(n) * float32(p)) - 1, 0) of the ascending order, as in
Koordinator's agent: no interpolation, and for n = 10 the 9th sample for p90, p95 and p99 alike. An aggregate over no
samples is NaN, and their count is 0.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from koordlet.samples import RESOURCES, Resource, SeriesKey, UsageSample


@dataclass(frozen=True, slots=True)
class TimeWindow:
    """The instants t with `until_seconds - seconds < t <= until_seconds`, in Unix time."""

    until_seconds: float
    seconds: float


@dataclass(frozen=True, slots=True)
class WindowSamples:
    """The samples of some series in a window, in the order they were appended."""

    window: TimeWindow
    keys: tuple[SeriesKey, ...]
    at_seconds: NDArray[np.float64]
    """[sample]: Unix time of each."""
    values: NDArray[np.floating]
    """[resource, series, sample]: cores and bytes, in the order of `samples.RESOURCES` and `keys`; NaN is no sample."""
    weights: NDArray[np.float64] | None = None
    """[sample]: number of instants of which each sample is the mean; None where each is of one instant."""


Samples = NDArray[np.floating]
Aggregate = NDArray[np.float64]

COLD_SHARE = 0.5
"""An aggregate is cold while the samples span strictly less than this share of the window."""


class UsageStatistic(enum.StrEnum):
    """Available aggregates."""

    AVG = "avg"
    P50 = "p50"
    P90 = "p90"
    P95 = "p95"
    P99 = "p99"
    STD = "std"


PERCENTILES: Mapping[UsageStatistic, float] = {
    UsageStatistic.P50: 0.5,
    UsageStatistic.P90: 0.9,
    UsageStatistic.P95: 0.95,
    UsageStatistic.P99: 0.99,
}


def count(values: Samples) -> NDArray[np.int64]:
    """Return the number of samples."""
    samples: NDArray[np.int64] = np.sum(~np.isnan(values), axis=-1, dtype=np.int64)
    return samples


def average(values: Samples, weights: NDArray[np.float64] | None = None) -> Aggregate:
    """Return the arithmetic mean; with `weights`, which is [sample], the weighted one."""
    if weights is not None:
        total_weight = np.sum(~np.isnan(values) * weights, axis=-1)
        weighted = np.nansum(values * weights, axis=-1)
        return np.where(total_weight > 0, weighted / np.maximum(total_weight, 1), np.nan)
    samples = count(values)
    total = np.nansum(values, axis=-1, dtype=np.float64)
    return np.where(samples > 0, total / np.maximum(samples, 1), np.nan)


def standard_deviation(values: Samples) -> Aggregate:
    """Return the standard deviation of the samples as a population: root of the mean squared distance to the mean."""
    distances = values.astype(np.float64) - average(values)[..., np.newaxis]
    return np.sqrt(average(distances**2))


def percentiles(values: Samples, ratios: Sequence[float]) -> Aggregate:
    """Return the percentiles `ratios`, as [ratio, ...]: one sort for all of them.

    Raises ValueError for a ratio outside (0, 1].
    """
    if not all(0 < ratio <= 1 for ratio in ratios):
        raise ValueError(f"ratios {list(ratios)}: want 0 < ratio <= 1")
    samples = count(values)
    if values.shape[-1] == 0:
        return np.full((len(ratios), *samples.shape), np.nan)
    indices = [(samples.astype(np.float32) * np.float32(ratio)).astype(np.int64) - 1 for ratio in ratios]
    ordered = np.sort(values, axis=-1)  # NaN goes last
    taken = np.take_along_axis(ordered, np.maximum(np.stack(indices, axis=-1), 0), axis=-1)
    return np.moveaxis(taken, -1, 0).astype(np.float64)


def span_seconds(values: Samples, at_seconds: NDArray[np.float64]) -> Aggregate:
    """Return the time between the oldest and the newest sample, 0 if there are none. `at_seconds` is [sample]."""
    present = ~np.isnan(values)
    newest = np.max(np.where(present, at_seconds, -np.inf), axis=-1, initial=-np.inf)
    oldest = np.min(np.where(present, at_seconds, np.inf), axis=-1, initial=np.inf)
    return np.where(present.any(axis=-1), newest - oldest, 0.0)


def is_cold(span: float, window_seconds: float) -> bool:
    """Return whether samples that span so many seconds are too few to represent a window."""
    return span < COLD_SHARE * window_seconds


@dataclass(frozen=True, slots=True)
class Aggregates:
    """Several statistics of several series over one window."""

    window_seconds: float
    series: Mapping[SeriesKey, int]
    """Index of each series."""
    values: Mapping[UsageStatistic, NDArray[np.floating]]
    """[resource, series] of each statistic."""
    spans: Aggregate
    """[resource, series]: seconds between the oldest and the newest sample."""

    def usage(self, statistic: UsageStatistic, key: SeriesKey) -> UsageSample | None:
        """Return one aggregate of one series, None where there were no samples."""
        cpu_cores, memory_bytes = self.values[statistic][:, self.series[key]]
        if math.isnan(cpu_cores) or math.isnan(memory_bytes):
            return None
        return UsageSample(float(cpu_cores), float(memory_bytes))

    def is_cold(self, key: SeriesKey) -> bool:
        """Return whether the CPU samples of a series span too little of the window."""
        return is_cold(float(self.spans[RESOURCES.index(Resource.CPU), self.series[key]]), self.window_seconds)


def aggregate(samples: WindowSamples, statistics: Collection[UsageStatistic]) -> Aggregates:
    """Compute statistics of all series of a window together."""
    values, at_seconds = samples.values, samples.at_seconds
    names = [statistic for statistic in PERCENTILES if statistic in statistics]
    values_by_statistic: dict[UsageStatistic, NDArray[np.floating]] = {}
    if names:
        values_by_statistic.update(zip(names, percentiles(values, [PERCENTILES[one] for one in names]), strict=True))
    if UsageStatistic.AVG in statistics:
        values_by_statistic[UsageStatistic.AVG] = average(values, samples.weights)
    if UsageStatistic.STD in statistics:
        values_by_statistic[UsageStatistic.STD] = standard_deviation(values)
    series = {key: index for index, key in enumerate(samples.keys)}
    return Aggregates(samples.window.seconds, series, values_by_statistic, span_seconds(values, at_seconds))
