"""Means of the cached usage of NUMA nodes."""

from __future__ import annotations

from koordlet.metric_cache import aggregation
from koordlet.metric_cache.aggregation import UsageStatistic
from koordlet.metric_cache.interface import MetricCache, TimeWindow
from koordlet.samples import NumaSample, SeriesKey, SeriesKind


def means(cache: MetricCache, window: TimeWindow) -> dict[int, NumaSample]:
    """Return the mean of each NUMA node with a sample in the window, and of its share of the system."""
    keys = cache.keys()
    if not keys:
        return {}
    aggregates = aggregation.aggregate(cache.samples(keys, window), (UsageStatistic.AVG,))
    usages = {key: usage for key in keys if (usage := aggregates.usage(UsageStatistic.AVG, key)) is not None}
    return {
        int(key.identity): NumaSample(usage, usages.get(SeriesKey(SeriesKind.NUMA_SYSTEM, key.identity)))
        for key, usage in usages.items()
        if key.kind is SeriesKind.NUMA_NODE
    }
