"""Cache the results of equal pods by node row, and compute a result again only when its row changed.

A plugin's result for a node changes when the node's row changes. Pods of one workload form one class, so most calls
find all but a few rows computed. A new class costs the candidates of its call, never the whole cluster. What depends on
the time, such as the age of a report, does not belong into a cached result.
"""

from __future__ import annotations

import collections
from collections.abc import Callable, Hashable
from typing import Any, Final, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from scheduler_plugin.state.node_columns import Ints, RowChanges, Rows, grown

PodClass = TypeVar("PodClass", bound=Hashable)

_MOST_BYTES: Final = 16 * 2**20
"""Limit of one cache; at 5,000 nodes it holds 200 to 335 classes. The least recently used class is evicted."""
_MOST_CLASSES: Final = 1024
_FEWEST_CLASSES: Final = 64

Results = npt.NDArray[Any]


class _Cached:
    __slots__ = ("computed_at", "results")

    def __init__(self, rows: int, dtype: npt.DTypeLike) -> None:
        self.results: Results = np.empty(rows, dtype)
        self.computed_at: Ints = np.full(rows, -1, dtype=np.int64)
        """Version of each row when its result was computed; -1 before."""


class EquivalenceCache(Generic[PodClass]):
    """LRU cache: pod class -> result per node row, of type `dtype`. `compute(pod_class, rows)` returns some of them."""

    def __init__(self, compute: Callable[[PodClass, Rows], Results], dtype: npt.DTypeLike) -> None:
        self._compute = compute
        self._dtype = np.dtype(dtype)
        self._bytes_a_row = self._dtype.itemsize + np.dtype(np.int64).itemsize
        self._by_class: collections.OrderedDict[PodClass, _Cached] = collections.OrderedDict()

    def results(self, pod_class: PodClass, rows: Rows, changes: RowChanges) -> Results:
        """Return the results of `rows`, in their order; the caller may change the array."""
        cached = self._class_results(pod_class, len(changes.changed_at))
        changed_at = changes.changed_at[rows]
        is_stale = cached.computed_at[rows] < changed_at
        if is_stale.any():
            stale = rows[is_stale]
            cached.results[stale] = self._compute(pod_class, stale)
            cached.computed_at[stale] = changed_at[is_stale]
        return cached.results[rows]

    def _class_results(self, pod_class: PodClass, rows: int) -> _Cached:
        cached = self._by_class.get(pod_class)
        if cached is None:
            cached = self._by_class[pod_class] = _Cached(rows, self._dtype)
            most = min(max(_MOST_BYTES // (self._bytes_a_row * max(rows, 1)), _FEWEST_CLASSES), _MOST_CLASSES)
            while len(self._by_class) > most:
                self._by_class.popitem(last=False)
        else:
            self._by_class.move_to_end(pod_class)
            if len(cached.results) < rows:
                computed = len(cached.results)
                cached.results = grown(cached.results, rows)
                cached.computed_at = grown(cached.computed_at, rows)
                cached.computed_at[computed:] = -1
        return cached
