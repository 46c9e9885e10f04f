"""The week: usage of Prod in every hour of the last eight days, a floor of the peaks.

Half-lives are shorter than a weekend, so on Monday nothing is left of Friday. The floor is the largest usage of warm
pods and S in the last eight days, as a share of the requests, as pods come and go; but at most a tenth above that of
the same hours a week ago, so that a night or a weekend is not charged a working day.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from koordlet.prediction.histogram_bank import FloatArray
from koordlet.samples import RESOURCES, Resource, UsageSample

_HOUR_SECONDS: Final = 3600.0
_CELLS: Final = 24 * 8 + 2
_WEEK_HOURS: Final = 24 * 7
_ABOVE_WEEK_AGO: Final = 1.1
_LARGEST: Final = 1e6


@dataclass(eq=False)
class Week:
    """Largest usage of each hour, as a share of the requests; NaN without a sample."""

    first_hour: int | None = None
    """Hour of the first sample, counted from 1970."""
    hour: int = 0
    """The newest hour."""
    shares: FloatArray = field(default_factory=lambda: np.full((len(RESOURCES), _CELLS), np.nan))

    def __post_init__(self) -> None:
        """Raise ValueError for what no agent can have stored."""
        known = self.shares[np.isfinite(self.shares)]
        if self.shares.shape != (len(RESOURCES), _CELLS) or not ((known >= 0) & (known <= _LARGEST)).all():
            raise ValueError("impossible shares of a week")

    def add(self, now_seconds: float, used: UsageSample, requested: UsageSample) -> None:
        """Add the usage of the newest training, NaN where it is not known."""
        hour = math.floor(now_seconds / _HOUR_SECONDS)
        if self.first_hour is None or not 0 <= hour - self.hour < _CELLS:  # the first, or the clock was set
            self.first_hour, self.hour = hour, hour
            self.shares[:] = np.nan
        for passed in range(self.hour + 1, hour + 1):
            self.shares[:, passed % _CELLS] = np.nan
        self.hour = hour
        for row, (amount, request) in enumerate(zip(used, requested, strict=True)):
            if request > 0 and math.isfinite(amount):
                cell = self.shares[row, hour % _CELLS]
                self.shares[row, hour % _CELLS] = np.fmax(cell, min(amount / request, _LARGEST))

    def floor(self, now_seconds: float, resource: Resource, requested: float) -> float:
        """Return the least peak for pods of these requests, at most as much; 0 before a week was recorded."""
        hour = math.floor(now_seconds / _HOUR_SECONDS)
        if self.first_hour is None or not self.hour - self.first_hour >= _WEEK_HOURS or hour - self.hour > 1:
            return 0.0
        shares = self.shares[RESOURCES.index(resource)]
        week_ago = np.fmax.reduce(shares[(hour - _WEEK_HOURS + np.arange(-1, 2)) % _CELLS])
        share = np.minimum(np.fmax.reduce(shares), _ABOVE_WEEK_AGO * week_ago)  # NaN where nothing is known of then
        return requested * min(float(np.nan_to_num(share)), 1.0)
