"""Weighted mean and variance of many series, updated sample by sample (West 1979).

    W' = W + w        d = x - mean        mean' = mean + d * w / W'        M2' = M2 + w * d * (x - mean')

It is exact where a histogram is not: buckets misestimate the deviation of a steady series by a third. The variance is
that of the population, M2 / W, because the samples are all there is, not a draw from a larger set. The owner of the
moments scales the weights for decay.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from koordlet.prediction.buckets import FloatArray, IntArray

_LEAST_WEIGHT: Final = float(np.finfo(np.float64).tiny)
"""Smaller numbers lose digits: after a thousand half-lives the deviation would be wrong."""


class DecayedMoments:
    """One row per series: total weight, mean and M2. A row of weight 0 has no mean and no deviation (NaN)."""

    def __init__(self, capacity: int) -> None:
        self.weight: FloatArray = np.zeros(capacity)
        self._mean: FloatArray = np.zeros(capacity)
        self._m2: FloatArray = np.zeros(capacity)

    def add(self, rows: IntArray, values: FloatArray, weights: FloatArray) -> None:
        """Add one sample to each of `rows`, which are distinct."""
        total = np.maximum(self.weight[rows] + weights, 0)
        share = np.divide(weights, total, out=np.zeros_like(total), where=total > 0)
        deviation = values - self._mean[rows]
        mean = self._mean[rows] + deviation * share
        self._m2[rows] = np.maximum(self._m2[rows] + weights * deviation * (values - mean), 0)
        self._mean[rows] = mean
        self.weight[rows] = total

    def scale(self, factor: float) -> None:
        """Multiply the weight of every sample so far; mean and deviation do not change until nothing is left."""
        self.weight *= factor
        self._m2 *= factor
        self.weight[self.weight < _LEAST_WEIGHT] = 0

    def mean(self, rows: IntArray) -> FloatArray:
        """Return the mean of each row, NaN where the row has no weight."""
        return np.where(self.weight[rows] > 0, self._mean[rows], np.nan)

    def stdev(self, rows: IntArray) -> FloatArray:
        """Return the population standard deviation of each row, NaN where the row has no weight."""
        weight = self.weight[rows]
        variance = np.divide(self._m2[rows], weight, out=np.full_like(weight, np.nan), where=weight > 0)
        return np.sqrt(variance)

    def clear(self, rows: IntArray) -> None:
        """Remove all samples of `rows`."""
        for column in (self.weight, self._mean, self._m2):
            column[rows] = 0

    def grow(self, capacity: int) -> None:
        """Add empty rows up to `capacity`."""
        more = capacity - len(self.weight)
        self.weight, self._mean, self._m2 = (np.pad(column, (0, more)) for column in self.columns())

    def columns(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return weight, mean and M2 of all rows, the arrays themselves."""
        return self.weight, self._mean, self._m2
