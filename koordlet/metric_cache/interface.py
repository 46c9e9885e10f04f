"""Interface of a metric cache: takes samples of one instant, returns the samples of a window as arrays.

The InfluxDB exporter is not a metric cache: the agent writes to it, and no decision reads it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from koordlet.samples import SeriesKey, UsageSample


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


class MetricCache(Protocol):
    """Caches recent samples of many series."""

    def append(self, at_seconds: float, samples: Mapping[SeriesKey, UsageSample]) -> None:
        """Add the samples of one instant. A value that is not a finite number of at least zero is no sample."""

    def keys(self) -> list[SeriesKey]:
        """Return the cached series, the oldest first."""

    def samples(self, keys: Sequence[SeriesKey], window: TimeWindow) -> WindowSamples:
        """Return the samples of these series in the window; a series that is not cached has none."""
