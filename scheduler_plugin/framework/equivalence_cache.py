"""Cache the results of equal pods for every node row, and update them for changed rows.

A plugin's result for a node changes when the node's row changes, or when its report becomes too old. Pods of one
workload form one class, so most calls find all but a few rows computed.
"""

from __future__ import annotations

import collections
import math
from collections.abc import Callable, Hashable
from typing import Any, Final, Generic, TypeVar

import numpy.typing as npt

from scheduler_plugin.state.node_columns import Floats, RowChanges, Rows

PodClass = TypeVar("PodClass", bound=Hashable)

_MOST_CLASSES: Final = 128  # of at most 8 bytes per node; the least recently used class is evicted

Results = npt.NDArray[Any]


class _Cached:
    __slots__ = ("results", "valid_until", "version")

    def __init__(self, results: Results, version: int, valid_until: float) -> None:
        self.results = results
        self.version = version
        self.valid_until = valid_until


class EquivalenceCache(Generic[PodClass]):
    """LRU cache: pod class -> result per node row.

    `compute(pod_class, rows, now)` returns the results of some rows; `slice(None)` means all. Changed rows are
    recomputed on read, and all rows when the result of one expires.
    """

    def __init__(self, compute: Callable[[PodClass, Rows | slice, float], Results]) -> None:
        self._compute = compute
        self._by_class: collections.OrderedDict[PodClass, _Cached] = collections.OrderedDict()

    def of(self, pod_class: PodClass, changes: RowChanges, expires_at: Floats, now: float) -> Results:
        """Return the result of every row; `expires_at` is the time at which each row's result expires."""
        cached = self._by_class.get(pod_class)
        if cached is None or now >= cached.valid_until or len(cached.results) != len(expires_at):
            results = self._compute(pod_class, slice(None), now)
            cached = self._by_class[pod_class] = _Cached(results, changes.version, _first_after(expires_at, now))
            if len(self._by_class) > _MOST_CLASSES:
                self._by_class.popitem(last=False)
        elif cached.version != changes.version:
            changed = changes.changed_since(cached.version)
            cached.results[changed] = self._compute(pod_class, changed, now)
            cached.valid_until = min(cached.valid_until, _first_after(expires_at[changed], now))
            cached.version = changes.version
        self._by_class.move_to_end(pod_class)
        return cached.results


def _first_after(times: Floats, now: float) -> float:
    later = times[times > now]
    return float(later.min()) if later.size else math.inf
