"""Decayed histogram of the scores of past forecasts, and the score that a chosen share of them does not exceed.

CPU:    score = (Y - C) / B              on a grid of 0.25 * 1.015^k
memory: score = (Y - C - B) / (L - C)    on a grid from -1 to 1 in steps of 0.0025

Y is the largest usage of the forecast's pods within the horizon, C what cold pods were charged, B the base of the
forecast and L what the pods requested.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Final

import numpy as np

from koordlet.prediction.buckets import FloatArray

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


@dataclass(frozen=True, eq=False)
class ScoreState:
    """The histogram as plain values, for a checkpoint."""

    weights: FloatArray
    labels: int
    newest_seconds: float
    horizon_seconds: float


class ScoreHistogram:
    """Scores of one resource at one horizon."""

    def __init__(self, scale: Scale, horizon_seconds: float) -> None:
        self.scale = scale
        self._state = ScoreState(np.zeros(len(scale.grid)), 0, 0.0, horizon_seconds)

    @property
    def labels(self) -> int:
        """Number of scores seen."""
        return self._state.labels

    def add(self, score: float, now_seconds: float) -> None:
        """Count a score in the cell of the smallest grid value that is not below it."""
        state = self._state
        passed = max(now_seconds - state.newest_seconds, 0.0) if state.labels else 0.0
        weights = state.weights * 2.0 ** -(passed / self.scale.half_life_seconds)
        weights[self._cell(score)] += 1.0
        self._state = dataclasses.replace(state, weights=weights, labels=state.labels + 1, newest_seconds=now_seconds)

    def is_reached_by(self, score: float, target_share: float) -> bool:
        """Return whether adding a score leaves the quantile of a target at its value or raises it."""
        return self.labels > 0 and bool(self.scale.grid[self._cell(score)] >= self._quantile(1 - _KAPPA * target_share))

    def multiplier(self, target_share: float) -> float:
        """Return lambda, with its correction, for a target share (0..1) of violations. Raises ValueError if empty."""
        if not self.labels:
            raise ValueError("a histogram without scores has no multiplier")
        found = self._quantile(1 - _KAPPA * target_share)
        share = _INFLATION * self._state.horizon_seconds / 3600 / self.labels
        return found + self.scale.correction(found, self._quantile(0.5), share)

    def shift_clock(self, seconds: float) -> None:
        """Follow a step of the wall clock, which ages nothing."""
        self._state = dataclasses.replace(self._state, newest_seconds=self._state.newest_seconds + seconds)

    def export(self) -> ScoreState:
        """Return what a checkpoint has to store."""
        return self._state

    def restore(self, state: ScoreState) -> bool:
        """Load stored scores; False, and nothing loaded, for scores of another horizon or with impossible values."""
        weights = np.asarray(state.weights, float)
        is_valid = (
            state.horizon_seconds == self._state.horizon_seconds
            and weights.shape == self.scale.grid.shape
            and bool(np.isfinite(weights).all() and (weights >= 0).all())
            and state.labels >= 0
            and bool(np.isfinite(state.newest_seconds))
            and (state.labels == 0) == (not weights.any())
        )
        if is_valid:
            self._state = dataclasses.replace(state, weights=weights)
        return is_valid

    def _cell(self, score: float) -> int:
        return min(int(np.searchsorted(self.scale.grid, score - _EDGE)), len(self.scale.grid) - 1)

    def _quantile(self, share: float) -> float:
        cumulated = np.cumsum(self._state.weights)
        return float(self.scale.grid[np.argmax(cumulated >= share * cumulated[-1] - _ROUNDING)])
