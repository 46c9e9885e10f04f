"""Row numbers of series in the banks; rows of series that are gone are reused."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from koordlet.prediction.buckets import IntArray
from koordlet.samples import SeriesKey


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
