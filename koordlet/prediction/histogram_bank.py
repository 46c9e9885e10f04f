"""Decayed histograms and moments of all series of one resource, as rows of one array.

A sample of time t is added with weight 2^((t - ref) / half_life). New samples get exponentially larger weights, so old
ones lose relative weight without being rewritten. Before weights become too large, `ref` moves and they are scaled
down. When the half-life changes, `ref` first moves to the present, so that past decay is not undone.

Mean and variance are updated sample by sample (West 1979):

    W' = W + w        d = x - mean        mean' = mean + d * w / W'        M2' = M2 + w * d * (x - mean')

They are exact where a histogram is not: buckets misestimate the deviation of a steady series by a third. The variance
is that of the population, M2 / W, because the samples are all there is, not a draw from a larger set.

Bucket n spans [start(n), start(n + 1)); the last one is open-ended, and a value below zero counts as zero. A percentile
is the upper end of its bucket, so it errs on the safe side by at most one bucket width.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import numpy.typing as npt

from koordlet.samples import SeriesKey

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
        for name in ("max_value", "first_bucket_size", "epsilon"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} of buckets is {getattr(self, name)}, want more than 0")
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
        position = np.where(values < self.first_bucket_size, 0, position)
        return np.clip(position, 0, len(self.starts) - 1).astype(np.intp)


# A thousandth of the smallest relevant sample weight, 0.1, as in Koordinator's agent.
EPSILON: Final = 0.0001

# The first bucket is far below that of Koordinator's agent (0.025 core, 5 MiB): most pods are idle, and a first bucket
# of 25 millicores overstates them by a factor of ten.
CPU_CORES: Final = ExponentialBuckets(max_value=1024, first_bucket_size=0.001, ratio=1.05, epsilon=EPSILON)
MEMORY_BYTES: Final = ExponentialBuckets(max_value=2**41, first_bucket_size=2**20, ratio=1.05, epsilon=EPSILON)


# Weights stay below 2^60, far from the limits of float64 and float32, and `ref` moves once a month or two.
MAX_HALF_LIVES_FROM_REFERENCE: Final = 60
_FAR: Final = 1000  # half-lives: 2^-1000 is negligible beside any weight, and 2^1000 is still a float64
_LEAST_WEIGHT: Final = float(np.finfo(np.float64).tiny)
"""Smaller numbers lose digits: after a thousand half-lives the deviation would be wrong."""
_WEIGHT, _MEAN, _M2, _FIRST, _LAST, _RECORDED, _NEWEST = range(7)
_EMPTY: Final = np.array([[0.0, 0.0, 0.0, math.nan, math.nan, 0.0, math.nan]]).T
"""Columns of a row without samples, as in `BankState`."""


@dataclass(frozen=True, eq=False)
class BankState:
    """Rows of a bank as plain arrays, for a checkpoint. Times are Unix seconds, NaN where never set."""

    half_life_seconds: float
    reference_seconds: float
    cells: IntArray
    """ExponentialBuckets in use: row * number of buckets + bucket, ascending."""
    cell_weights: FloatArray
    """Weight of each of `cells`."""
    columns: FloatArray
    """Shape (7, rows): weight, mean, M2, time of the first and of the last sample, recorded seconds, newest value."""


class HistogramBank:
    """Histograms with decaying weights, one per row, all with the same buckets and the same half-life.

    The owner assigns row numbers from 0. `rows` of one call are distinct; values are finite. Not thread-safe.

    The array has its full size from the start, and the kernel provides memory when rows are first used. An array that
    grew with the rows would be copied, and each copy would leave a hole of its size in the heap.
    """

    def __init__(
        self,
        buckets: ExponentialBuckets,
        half_life_seconds: float = math.inf,
        capacity: int = 64,
        longest_recorded_gap_seconds: float = math.inf,
    ) -> None:
        self.buckets = buckets
        self.half_life_seconds = half_life_seconds
        self.reference_seconds: float | None = None
        self._upper_ends = np.append(buckets.starts[1:], buckets.starts[-1])
        self._weights: FloatArray = np.zeros((capacity, len(buckets.starts)))
        self._rows_ever_used = 0
        self._columns: FloatArray = np.repeat(_EMPTY, capacity, axis=1)
        """As in `BankState`."""
        self._longest_recorded_gap_seconds = longest_recorded_gap_seconds
        self._recording_since_seconds = math.nan
        """Time of the first sample that this object was given; restored samples are older."""

    def add(self, rows: IntArray, values: FloatArray, at_seconds: float, weights: float | FloatArray = 1.0) -> None:
        """Add one sample of time `at_seconds` to each of `rows`; `weights` (>= 0) are those before decay.

        Recorded time grows by the time since the row's sample before, up to the longest recorded gap. Nothing was
        recorded between the last sample before a restart and the first one after it.
        """
        if math.isnan(self._recording_since_seconds):
            self._recording_since_seconds = at_seconds
        self._rows_ever_used = max(self._rows_ever_used, int(rows.max(initial=-1)) + 1)
        total_weight, mean, m2, first, last, recorded, newest = self._columns
        before = last[rows]
        gap = np.clip(at_seconds - before, 0, self._longest_recorded_gap_seconds)
        recorded[rows] += np.where(before >= self._recording_since_seconds, gap, 0)  # false for NaN
        decayed = self._weights_of_time(at_seconds, weights, len(rows))
        self._weights[rows, self.buckets.positions(values)] += decayed
        total = np.maximum(total_weight[rows] + decayed, 0)
        share = np.divide(decayed, total, out=np.zeros_like(total), where=total > 0)
        deviation = values - mean[rows]
        new_mean = mean[rows] + deviation * share
        m2[rows] = np.maximum(m2[rows] + decayed * deviation * (values - new_mean), 0)
        mean[rows] = new_mean
        total_weight[rows] = total
        first[rows] = np.fmin(first[rows], at_seconds)
        last[rows] = np.fmax(before, at_seconds)
        newest[rows] = values

    def mean(self, rows: IntArray) -> FloatArray:
        """Return the decayed mean of each row; NaN for an empty one, and for one without weight."""
        return np.where(self._column(_WEIGHT, rows) > 0, self._column(_MEAN, rows), np.nan)

    def stdev(self, rows: IntArray) -> FloatArray:
        """Return the decayed population standard deviation of each row; NaN where there is no mean."""
        weight = self._column(_WEIGHT, rows)
        return np.sqrt(np.divide(self._column(_M2, rows), weight, out=np.full_like(weight, np.nan), where=weight > 0))

    def percentiles(self, rows: IntArray, ratios: Sequence[float]) -> FloatArray:
        """Return the upper end of the bucket at which each ratio (0..1) of the weight is reached; shape (rows, ratios).

        Counted from the lowest to the highest bucket with a weight of at least epsilon, so a ratio outside of 0..1
        yields these two. In a row that weighs less than one sample of the reference time, epsilon is a share of its
        weight. NaN for an empty row.
        """
        weights = self._weights[rows]
        least = self.buckets.epsilon * np.minimum(weights.sum(axis=1, keepdims=True), 1)
        in_use = (weights >= least) & (weights > 0)
        lowest = np.argmax(in_use, axis=1)
        highest = weights.shape[1] - 1 - np.argmax(in_use[:, ::-1], axis=1)
        running = np.cumsum(weights, axis=1)
        numbered = np.arange(len(rows))
        below_lowest = running[numbered, lowest] - weights[numbered, lowest]
        percentiles = np.empty((len(rows), len(ratios)))
        for column, ratio in enumerate(ratios):
            reached = ratio * running[:, -1] + below_lowest
            bucket = np.count_nonzero(running < reached[:, np.newaxis], axis=1)
            percentiles[:, column] = self._upper_ends[np.clip(bucket, lowest, highest)]
        percentiles[~in_use.any(axis=1)] = np.nan
        return percentiles

    def first_seconds(self, rows: IntArray) -> FloatArray:
        """Return the time of the first sample of each row; NaN for an empty one."""
        return self._column(_FIRST, rows)

    def last_seconds(self, rows: IntArray) -> FloatArray:
        """Return the time of the newest sample of each row; NaN for an empty one."""
        return self._column(_LAST, rows)

    def recorded_seconds(self, rows: IntArray) -> FloatArray:
        """Return the time in which samples of each row were recorded."""
        return self._column(_RECORDED, rows)

    def newest_values(self, rows: IntArray) -> FloatArray:
        """Return the sample that was added last to each row; NaN for an empty one."""
        return self._column(_NEWEST, rows)

    def decay_until(self, at_seconds: float) -> float:
        """Return the factor that decays a stored weight to a time."""
        if self.reference_seconds is None:
            return 1.0
        half_lives = (at_seconds - self.reference_seconds) / self.half_life_seconds
        return float(2.0 ** -min(max(half_lives, -_FAR), _FAR))

    def change_half_life(self, half_life_seconds: float, at_seconds: float) -> None:
        """Apply another half-life from `at_seconds` on; decay until then does not change."""
        if self.reference_seconds is not None:
            self._move_reference(at_seconds)
        self.half_life_seconds = half_life_seconds

    def shift_clock(self, seconds: float) -> None:
        """Shift all recorded times after a clock was set: every sample keeps its age and its weight."""
        if self.reference_seconds is not None:
            self.reference_seconds += seconds
        self._columns[[_FIRST, _LAST]] += seconds
        self._recording_since_seconds += seconds

    def clear(self, rows: IntArray) -> None:
        """Remove the samples of `rows`, so that the rows can be used for other series."""
        self._weights[rows] = 0
        self._columns[:, rows] = _EMPTY

    def forget_samples(self, rows: IntArray) -> None:
        """Remove the samples of `rows`, but not that and how long they were recorded."""
        self._weights[rows] = 0
        self._columns[_WEIGHT : _M2 + 1, rows] = 0

    def ensure_rows(self, count: int) -> None:
        """Make room for at least `count` rows: a checkpoint may have more of them than the capacity."""
        missing = count - len(self._weights)
        if missing <= 0:
            return
        more = max(missing, len(self._weights))  # doubled, so that growth costs little per row
        self._weights = np.pad(self._weights, ((0, more), (0, 0)))
        self._columns = np.hstack([self._columns, np.repeat(_EMPTY, more, axis=1)])

    def state(self, rows: IntArray) -> BankState:
        """Return a copy of some rows, to the last bit."""
        weights = self._weights[rows].ravel()
        cells = np.flatnonzero(weights)
        return BankState(
            half_life_seconds=self.half_life_seconds,
            reference_seconds=math.nan if self.reference_seconds is None else self.reference_seconds,
            cells=cells,
            cell_weights=weights[cells],
            columns=self._columns[:, rows],
        )

    def restore(self, rows: IntArray, state: BankState) -> None:
        """Copy stored rows into an empty bank, with their half-life and reference."""
        self.half_life_seconds = state.half_life_seconds
        self.reference_seconds = None if math.isnan(state.reference_seconds) else state.reference_seconds
        weights = np.zeros((len(rows), self._weights.shape[1]))
        weights.put(state.cells, state.cell_weights)
        self._weights[rows] = weights
        self._rows_ever_used = int(rows.max(initial=-1)) + 1
        self._columns[:, rows] = state.columns

    def _column(self, number: int, rows: IntArray) -> FloatArray:
        column: FloatArray = self._columns[number]
        return column[rows]

    def _weights_of_time(self, at_seconds: float, weights: float | FloatArray, count: int) -> FloatArray:
        if self.reference_seconds is None:
            self.reference_seconds = at_seconds
        half_lives = (at_seconds - self.reference_seconds) / self.half_life_seconds
        if half_lives > MAX_HALF_LIVES_FROM_REFERENCE:
            # Whole half-lives: a power of two changes no digit of any weight.
            self._move_reference(self.reference_seconds + math.floor(half_lives) * self.half_life_seconds)
        return np.full(count, weights / self.decay_until(at_seconds))

    def _move_reference(self, to_seconds: float) -> None:
        factor = self.decay_until(to_seconds)
        self._weights[: self._rows_ever_used] *= factor  # a row that is written to takes memory
        self._columns[[_WEIGHT, _M2]] *= factor  # mean and deviation do not change until nothing is left
        weight = self._columns[_WEIGHT]
        weight[weight < _LEAST_WEIGHT] = 0
        self.reference_seconds = to_seconds


class SeriesRows:
    """Row numbers from 0, as few as there were series at one time."""

    def __init__(self) -> None:
        self._numbers: dict[SeriesKey, int] = {}
        self._free: list[int] = []

    def __len__(self) -> int:
        return len(self._numbers)

    def __iter__(self) -> Iterator[SeriesKey]:
        return iter(self._numbers)

    def __contains__(self, key: SeriesKey) -> bool:
        return key in self._numbers

    @property
    def needed(self) -> int:
        """Number of rows that an array needs to hold every series."""
        return len(self._numbers) + len(self._free)

    def take(self, keys: Sequence[SeriesKey]) -> IntArray:
        """Return the rows of these series; a new series gets a free row."""
        for key in self.missing(keys):
            self._numbers[key] = self._free.pop() if self._free else len(self._numbers)
        return self.numbers(keys)

    def missing(self, keys: Iterable[SeriesKey]) -> list[SeriesKey]:
        """Return the series without a row."""
        return [key for key in keys if key not in self._numbers]

    def release(self, keys: Iterable[SeriesKey]) -> IntArray:
        """Free the rows of these series and return them. Raises KeyError for a series without a row."""
        released = [self._numbers.pop(key) for key in keys]
        self._free.extend(released)
        return np.array(released, np.intp)

    def numbers(self, keys: Iterable[SeriesKey]) -> IntArray:
        """Return the rows of these series. Raises KeyError for a series without a row."""
        return np.array([self._numbers[key] for key in keys], np.intp)
