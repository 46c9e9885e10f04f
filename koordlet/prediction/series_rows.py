"""Which row of the banks belongs to which series; rows of series that are gone are used again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from koordlet.prediction.buckets import IntArray
from koordlet.samples import SeriesKey


class SeriesRows:
    """Row numbers from 0, as few as there were series at one time."""

    def __init__(self) -> None:
        self._row_of: dict[SeriesKey, int] = {}
        self._free: list[int] = []

    def __len__(self) -> int:
        return len(self._row_of)

    def __iter__(self) -> Iterator[SeriesKey]:
        return iter(self._row_of)

    def __contains__(self, key: SeriesKey) -> bool:
        return key in self._row_of

    @property
    def needed(self) -> int:
        """Rows an array must have to hold every series."""
        return len(self._row_of) + len(self._free)

    def take(self, keys: Sequence[SeriesKey]) -> IntArray:
        """Rows of these series; one that has none yet gets a free one."""
        for key in self.missing(keys):
            self._row_of[key] = self._free.pop() if self._free else len(self._row_of)
        return self.of(keys)

    def missing(self, keys: Iterable[SeriesKey]) -> list[SeriesKey]:
        """Those series that have no row."""
        return [key for key in keys if key not in self._row_of]

    def release(self, keys: Iterable[SeriesKey]) -> IntArray:
        """Give back the rows of these series, which have one (KeyError); answers the rows."""
        released = [self._row_of.pop(key) for key in keys]
        self._free.extend(released)
        return np.array(released, np.intp)

    def of(self, keys: Iterable[SeriesKey]) -> IntArray:
        """Rows of these series, which have one (KeyError)."""
        return np.array([self._row_of[key] for key in keys], np.intp)
