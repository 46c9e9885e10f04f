"""Means of the usage of NUMA nodes: the few samples there are of them, in a ring of their own.

Apart from the other series, because nothing is predicted by NUMA node, and because they come once in ten ticks. On a
machine of one node the ring stays empty and has no memory.
"""

from __future__ import annotations

from typing import Final

from koordlet.collectors.numa.collector import NUMA_TICKS
from koordlet.metric_cache import aggregation
from koordlet.metric_cache.aggregation import Statistic
from koordlet.metric_cache.interface import Window
from koordlet.metric_cache.ring import RingCache
from koordlet.samples import NumaSample, SeriesKey, SeriesKind, Snapshot

_MOST_NODES: Final = 64
"""Of a machine; the rows of more would be refused, by rule of the cache."""


class NumaMeans:
    """Remembers `window_seconds` of samples."""

    def __init__(self, window_seconds: float) -> None:
        self._cache = RingCache(window_seconds, interval_seconds=NUMA_TICKS, max_series=2 * _MOST_NODES)

    def append(self, snapshot: Snapshot) -> None:
        """Add what the snapshot has, if anything."""
        if not snapshot.numa:
            return
        samples = {SeriesKey(SeriesKind.NUMA_NODE, str(number)): each.node for number, each in snapshot.numa.items()}
        samples |= {
            SeriesKey(SeriesKind.NUMA_SYSTEM, str(number)): each.system
            for number, each in snapshot.numa.items()
            if each.system is not None
        }
        self._cache.append(snapshot.at_seconds, samples)

    def over(self, window: Window) -> dict[int, NumaSample]:
        """Mean of each NUMA node that has a sample in the window, and of its system's share."""
        keys = self._cache.keys()
        if not keys:
            return {}
        found = aggregation.aggregate(self._cache.samples(keys, window), (Statistic.AVG,))
        means = {key: usage for key in keys if (usage := found.usage(Statistic.AVG, key)) is not None}
        return {
            int(key.identity): NumaSample(usage, means.get(SeriesKey(SeriesKind.NUMA_SYSTEM, key.identity)))
            for key, usage in means.items()
            if key.kind is SeriesKind.NUMA_NODE
        }
