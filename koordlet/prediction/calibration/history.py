"""History of a calibration: the usage of the last day, and the scores of past forecasts.

`DayRing` has the largest usage of each series in every 5 minutes of the last 24 hours, and the base of a forecast:

    R[a] = sum over the warm series of ring[a]    a = 0..287 slots back; mean + stdev where a series has no value
    B    = 1/4 ( max R[0..287] + max R[0..71] + sum over series of max ring[0..35] + sum of mean + 3 stdev )

Values are shares of the node's capacity as float16: 141 KiB for 250 series.

`ScoreHistogram` has the decayed scores, and the score that a chosen share of them does not exceed:

CPU:    score = (Y - C) / B              on a grid of 0.25 * 1.015^k
memory: score = (Y - C - B) / (L - C)    on a grid from -1 to 1 in steps of 0.0025

Y is the largest usage of the forecast's pods within the horizon, C what cold pods were charged, B the base of the
forecast and L what the pods requested.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Self

import numpy as np
import numpy.typing as npt

from api_types.node_metric.workloads import ScorePrior
from koordlet.prediction.histogram_bank import FloatArray, IntArray
from koordlet.samples import Resource

HalfArray = npt.NDArray[np.float16]
SLOT_SECONDS: Final = 300.0
SLOTS: Final = 288
_SLOTS_OF_6_HOURS: Final = 72
_SLOTS_OF_3_HOURS: Final = 36
_LARGEST: Final = 60_000.0  # of float16: 65504
LEAST_BASE: Final = 1e-6
_BLOCK_ROWS: Final = 64


@dataclass(eq=False)
class DayRing:
    """One row for each series, one column for each slot; NaN where nothing was measured."""

    values: HalfArray = field(default_factory=lambda: np.full((0, SLOTS), np.nan, np.float16))
    head: int = 0
    slot_seconds: float = math.nan
    """Begin of the current slot."""

    def ensure_rows(self, count: int) -> None:
        """Grow to at least so many rows, in blocks: each growth copies all of them."""
        missing = count - len(self.values)
        if missing > 0:
            missing += -count % _BLOCK_ROWS
            self.values = np.concatenate([self.values, np.full((missing, SLOTS), np.nan, np.float16)])

    def record(self, now_seconds: float, rows: IntArray, shares: FloatArray) -> None:
        """Raise the current slot of each row to a usage; slots that passed meanwhile stay without a value."""
        self._advance(now_seconds)
        self.values[rows, self.head] = np.fmax(self.values[rows, self.head], np.minimum(shares, _LARGEST))

    def clear(self, rows: IntArray) -> None:
        """Forget series whose rows are given to others."""
        self.values[rows] = np.nan

    def shift_clock(self, seconds: float) -> None:
        """Follow a step of the wall clock, which ages nothing."""
        self.slot_seconds += seconds

    def copy(self, rows: IntArray) -> DayRing:
        """Return a copy of the rows, in their order."""
        return DayRing(self.values[rows], self.head, self.slot_seconds)

    def fits(self, count: int) -> bool:
        """Return whether it holds so many series, and a slot that exists."""
        return self.values.shape == (count, SLOTS) and 0 <= self.head < SLOTS

    def base(
        self,
        rows: IntArray,
        mean: FloatArray,
        stdev: FloatArray,
        oldest_seconds: float,
        now_seconds: float,
        *,
        most: FloatArray | float = math.inf,
    ) -> float:
        """Return B of the warm series in `rows`, as a share of capacity; slots before `oldest_seconds` do not count.

        A series with a finite `most` is borrowed: its mean and deviation count to that at most, and their sum of three
        deviations is at least its largest value of 3 hours.
        """
        if not len(rows):
            return LEAST_BASE
        usual, high = np.minimum(mean + stdev, most), np.minimum(mean + 3 * stdev, most)
        slots_back = (self.head - np.arange(SLOTS)) % SLOTS
        values = self.values[rows].astype(np.float32)
        largest = np.fmax.reduce(values[:, slots_back < _SLOTS_OF_3_HOURS], axis=1)
        largest = np.where(np.isfinite(most), np.fmax(largest, high), largest)
        missing = np.isnan(values)
        np.copyto(values, usual[:, np.newaxis], where=missing, casting="same_kind")
        total = values.sum(axis=0, dtype=np.float64)
        total = np.where(slots_back * SLOT_SECONDS <= now_seconds - oldest_seconds, total, 0.0)
        terms = (
            total.max(),
            total[slots_back < _SLOTS_OF_6_HOURS].max(),
            np.nansum(largest, dtype=np.float64),
            high.sum(),
        )
        return max(float(sum(terms)) / 4, LEAST_BASE)

    def newest_first(self, rows: IntArray) -> FloatArray:
        """Return a copy of the rows as shares of capacity, the current slot first."""
        return self.values[rows][:, (self.head - np.arange(SLOTS)) % SLOTS].astype(float)

    def _advance(self, now_seconds: float) -> None:
        if math.isnan(self.slot_seconds):
            self.slot_seconds = now_seconds
        passed = math.floor((now_seconds - self.slot_seconds) / SLOT_SECONDS)
        if passed <= 0:
            return
        emptied = (self.head + 1 + np.arange(min(passed, SLOTS))) % SLOTS
        self.values[:, emptied] = np.nan
        self.head = (self.head + passed) % SLOTS
        self.slot_seconds += passed * SLOT_SECONDS


MIN_LABELS: Final = 24
"""Below it there is no calibrated peak; below `CALIBRATED_LABELS` the larger of it and n-sigma-v2 is taken."""
CALIBRATED_LABELS: Final = 2 * MIN_LABELS
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


SCALES: Final[Mapping[Resource, Scale]] = {
    Resource.CPU: Scale(np.asarray(0.25 * 1.015 ** np.arange(173), np.float64), 7 * 86_400.0, is_additive=False),
    Resource.MEMORY: Scale(np.linspace(-1.0, 1.0, 801), 30 * 86_400.0, is_additive=True),
}


@dataclass(eq=False)
class ScoreHistogram:
    """Scores of one resource at one horizon."""

    resource: Resource
    horizon_seconds: float
    weights: FloatArray
    labels: int = 0
    """Number of scores that were added."""
    newest_seconds: float = 0.0
    basis: str = ""
    """What the forecasts were made with beside the horizon: those of others are worth nothing."""
    has_begun_again: bool = False
    """Whether horizon or basis have changed."""

    @classmethod
    def empty(cls, resource: Resource, horizon_seconds: float, basis: str = "") -> Self:
        """Return a histogram without scores."""
        return cls(resource, horizon_seconds, np.zeros(len(SCALES[resource].grid)), basis=basis)

    @property
    def scale(self) -> Scale:
        """The grid of the scores."""
        return SCALES[self.resource]

    def add(self, score: float, now_seconds: float, weight: float = 1.0) -> None:
        """Count a score in the cell of the smallest grid value that is not below it."""
        passed = max(now_seconds - self.newest_seconds, 0.0) if self.labels else 0.0
        weights = self.weights * 2.0 ** -(passed / self.scale.half_life_seconds)
        weights[self._cell(score)] += weight
        self.weights, self.labels, self.newest_seconds = weights, self.labels + 1, now_seconds

    def cells(self) -> list[tuple[int, float]]:
        """Return index and weight of each cell in use."""
        return [(int(cell), round(float(self.weights[cell]), 4)) for cell in np.flatnonzero(self.weights)]

    def is_reached_by(self, score: float, target_share: float) -> bool:
        """Return whether adding a score leaves the quantile of a target at its value or raises it."""
        return self.labels > 0 and bool(self.scale.grid[self._cell(score)] >= self._quantile(1 - _KAPPA * target_share))

    def multiplier(self, target_share: float) -> float:
        """Return lambda, with its correction, for a target share (0..1) of violations. Raises ValueError if empty."""
        if not self.labels:
            raise ValueError("a histogram without scores has no multiplier")
        quantile = self._quantile(1 - _KAPPA * target_share)
        share = _INFLATION * self.horizon_seconds / 3600 / self.labels
        risen = quantile - self._quantile(0.5) if self.scale.is_additive else quantile
        return quantile + risen * share  # what a sample of few labels adds

    def joined(self, prior: FloatArray) -> ScoreHistogram:
        """Return these scores beside those of like nodes, which count as those of two days."""
        weights = self.weights + prior * (CALIBRATED_LABELS / prior.sum())
        return dataclasses.replace(self, weights=weights, labels=self.labels + CALIBRATED_LABELS)

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


_PRIOR_AGE_SECONDS: Final = 3 * 86_400.0


@dataclass(frozen=True, eq=False)
class Prior:
    """Scores of nodes like this one, for as long as it has few of its own; the manager gives none that are too few."""

    updated_seconds: float
    weights: Mapping[Resource, FloatArray]

    @classmethod
    def from_wire(cls, prior: ScorePrior) -> Self:
        """Return the scores in `spec.scorePrior`; cells that no grid has do not count."""
        weights = {}
        for resource, scores in ((Resource.CPU, prior.cpu), (Resource.MEMORY, prior.memory)):
            weights[resource] = np.zeros(len(SCALES[resource].grid))
            for index, weight in scores.cells:
                if index < len(weights[resource]):
                    weights[resource][int(index)] += weight
        return cls(prior.update_time.timestamp(), weights)

    def usable(self, resource: Resource, now_seconds: float) -> FloatArray | None:
        """Return the weights of one resource, None where there are none, or too old ones."""
        is_new = now_seconds - self.updated_seconds < _PRIOR_AGE_SECONDS
        return self.weights[resource] if is_new and self.weights[resource].any() else None
