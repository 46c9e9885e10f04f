"""Buckets of histograms, and the bucket of a value.

Bucket n spans [start(n), start(n + 1)); the last one is open-ended, and a value below zero counts as zero. A percentile
is the upper end of its bucket, so it errs on the safe side by at most one bucket width.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.intp]


@dataclass(frozen=True)
class ExponentialBuckets:
    """Buckets that grow by a constant ratio r, so that the relative error is bounded.

    start(n) = first * (r^n - 1) / (r - 1), and there are ceil(ln(max * (r - 1) / first + 1) / ln r) + 1 of them.
    """

    max_value: float
    first_bucket_size: float
    ratio: float
    epsilon: float
    """A bucket with less weight is neither the lowest nor the highest bucket in use."""
    starts: FloatArray = field(init=False, repr=False, compare=False)
    """Lowest value of each bucket, ascending from 0; its length is the number of buckets."""

    def __post_init__(self) -> None:
        _require_positive(max_value=self.max_value, first_bucket_size=self.first_bucket_size, epsilon=self.epsilon)
        if not self.ratio > 1:
            raise ValueError(f"ratio of exponential buckets is {self.ratio}, want more than 1")
        growth = self.ratio - 1
        count = math.ceil(math.log(self.max_value * growth / self.first_bucket_size + 1) / math.log(self.ratio)) + 1
        starts = self.first_bucket_size * (np.power(self.ratio, np.arange(count)) - 1) / growth
        object.__setattr__(self, "starts", starts)

    @property
    def identity(self) -> str:
        """The scheme and its numbers as text; equal text means equal buckets."""
        return repr(self)

    def positions(self, values: FloatArray) -> IntArray:
        """Return the bucket of each value: trunc(ln(value * (r - 1) / first + 1) / ln r), clamped to the ends."""
        growth = self.ratio - 1
        above_first = np.maximum(values, self.first_bucket_size)
        position = np.log(above_first * growth / self.first_bucket_size + 1) / math.log(self.ratio)
        # At the first start the two logarithms are equal, and numpy's may be slightly less than math's.
        position = np.maximum(np.trunc(position), 1)
        return _clamped(np.where(values < self.first_bucket_size, 0, position), len(self.starts))


def _require_positive(**numbers: float) -> None:
    for name, number in numbers.items():
        if not number > 0:
            raise ValueError(f"{name} of buckets is {number}, want more than 0")


def _clamped(position: FloatArray, count: int) -> IntArray:
    return np.clip(position, 0, count - 1).astype(np.intp)


# A thousandth of the smallest relevant sample weight, 0.1, as in Koordinator's agent.
EPSILON: Final = 0.0001

# The first bucket is far below that of Koordinator's agent (0.025 core, 5 MiB): most pods are idle, and a first bucket
# of 25 millicores overstates them by a factor of ten.
CPU_CORES: Final = ExponentialBuckets(max_value=1024, first_bucket_size=0.001, ratio=1.05, epsilon=EPSILON)
MEMORY_BYTES: Final = ExponentialBuckets(max_value=2**41, first_bucket_size=2**20, ratio=1.05, epsilon=EPSILON)
