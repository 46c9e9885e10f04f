"""Largest usage of each series in every 5 minutes of the last 24 hours, and the base of a forecast from it.

    R[a] = sum over the warm series of ring[a]    a = 0..287 slots back; mean + stdev where a series has no value
    B    = 1/4 ( max R[0..287] + max R[0..71] + sum over series of max ring[0..35] + sum of mean + 3 stdev )

Values are shares of the node's capacity as float16: 141 KiB for 250 series.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import numpy.typing as npt

from koordlet.prediction.buckets import FloatArray, IntArray

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
        self, rows: IntArray, mean: FloatArray, stdev: FloatArray, oldest_seconds: float, now_seconds: float
    ) -> float:
        """Return B of the warm series in `rows`, as a share of capacity; slots before `oldest_seconds` do not count."""
        if not len(rows):
            return LEAST_BASE
        slots_back = (self.head - np.arange(SLOTS)) % SLOTS
        values = self.values[rows].astype(np.float32)
        largest = np.fmax.reduce(values[:, slots_back < _SLOTS_OF_3_HOURS], axis=1)
        missing = np.isnan(values)
        np.copyto(values, (mean + stdev)[:, np.newaxis], where=missing, casting="same_kind")
        total = values.sum(axis=0, dtype=np.float64)
        total = np.where(slots_back * SLOT_SECONDS <= now_seconds - oldest_seconds, total, 0.0)
        terms = (
            total.max(),
            total[slots_back < _SLOTS_OF_6_HOURS].max(),
            np.nansum(largest, dtype=np.float64),
            (mean + 3 * stdev).sum(),
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
