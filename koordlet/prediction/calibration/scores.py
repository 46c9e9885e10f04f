"""Decayed histogram of the scores of past forecasts, and the score that a chosen share of them does not exceed.

CPU:    score = (Y - C) / B              on a grid of 0.25 * 1.015^k
memory: score = (Y - C - B) / (L - C)    on a grid from -1 to 1 in steps of 0.0025

Y is the largest usage of the forecast's pods within the horizon, C what cold pods were charged, B the base of the
forecast and L what the pods requested.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Self

import numpy as np

from koordlet.prediction.buckets import FloatArray
from koordlet.samples import Resource

MIN_LABELS: Final = 24
"""Below it there is no calibrated peak; below twice as many the larger of it and n-sigma-v2 is taken."""
_KAPPA: Final = 0.8  # violations cluster: aim at less than the target
_INFLATION: Final = 4.0  # correction of a finite sample
_ROUNDING: Final = 1e-9
_EDGE: Final = 1e-12


@dataclass(frozen=True, eq=False)
class Scale:
    """The grid of the scores of one resource, and how a multiplier grows while few labels are known."""

    grid: FloatArray
    half_life_seconds: float
    is_additive: bool

    def correction(self, multiplier: float, median: float, share: float) -> float:
        """Return what a sample of few labels adds to a multiplier; `share` is about the inverse of their number."""
        return (multiplier - median if self.is_additive else multiplier) * share


CPU_SCALE: Final = Scale(np.asarray(0.25 * 1.015 ** np.arange(173), np.float64), 7 * 86_400.0, is_additive=False)
MEMORY_SCALE: Final = Scale(np.linspace(-1.0, 1.0, 801), 30 * 86_400.0, is_additive=True)


SCALES: Final[Mapping[Resource, Scale]] = {Resource.CPU: CPU_SCALE, Resource.MEMORY: MEMORY_SCALE}


@dataclass(eq=False)
class ScoreHistogram:
    """Scores of one resource at one horizon."""

    resource: Resource
    horizon_seconds: float
    weights: FloatArray
    labels: int = 0
    """Number of scores that were added."""
    newest_seconds: float = 0.0

    @classmethod
    def empty(cls, resource: Resource, horizon_seconds: float) -> Self:
        """Return a histogram without scores."""
        return cls(resource, horizon_seconds, np.zeros(len(SCALES[resource].grid)))

    @property
    def scale(self) -> Scale:
        """The grid of the scores."""
        return SCALES[self.resource]

    def add(self, score: float, now_seconds: float) -> None:
        """Count a score in the cell of the smallest grid value that is not below it."""
        passed = max(now_seconds - self.newest_seconds, 0.0) if self.labels else 0.0
        weights = self.weights * 2.0 ** -(passed / self.scale.half_life_seconds)
        weights[self._cell(score)] += 1.0
        self.weights, self.labels, self.newest_seconds = weights, self.labels + 1, now_seconds

    def is_reached_by(self, score: float, target_share: float) -> bool:
        """Return whether adding a score leaves the quantile of a target at its value or raises it."""
        return self.labels > 0 and bool(self.scale.grid[self._cell(score)] >= self._quantile(1 - _KAPPA * target_share))

    def multiplier(self, target_share: float) -> float:
        """Return lambda, with its correction, for a target share (0..1) of violations. Raises ValueError if empty."""
        if not self.labels:
            raise ValueError("a histogram without scores has no multiplier")
        quantile = self._quantile(1 - _KAPPA * target_share)
        share = _INFLATION * self.horizon_seconds / 3600 / self.labels
        return quantile + self.scale.correction(quantile, self._quantile(0.5), share)

    def is_possible(self, resource: Resource) -> bool:
        """Return whether an agent can have recorded these scores of a resource."""
        return (
            self.resource is resource
            and self.weights.shape == self.scale.grid.shape
            and bool(np.isfinite(self.weights).all() and (self.weights >= 0).all())
            and self.labels >= 0
            and math.isfinite(self.newest_seconds)
            and self.horizon_seconds > 0
            and (self.labels == 0) == (not self.weights.any())
        )

    def _cell(self, score: float) -> int:
        return min(int(np.searchsorted(self.scale.grid, score - _EDGE)), len(self.scale.grid) - 1)

    def _quantile(self, share: float) -> float:
        cumulated = np.cumsum(self.weights)
        return float(self.scale.grid[np.argmax(cumulated >= share * cumulated[-1] - _ROUNDING)])
