"""Usage of a report: means and statistics of the cached samples over the windows of the spec."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from api_types.node_metric import types as node_metric
from koordlet.cluster import spec_in_force
from koordlet.cluster.pods import PodOnNode
from koordlet.collectors.numa.collector import NumaCollector
from koordlet.metric_cache import aggregation, numa_means
from koordlet.metric_cache.aggregation import UsageStatistic
from koordlet.metric_cache.interface import MetricCache, TimeWindow
from koordlet.metric_cache.store import MetricStore
from koordlet.report import class_usage
from koordlet.report.status import ReportedUsage, Statistics
from koordlet.samples import NODE, SYSTEM, SeriesKey, SeriesKind

_REPORTED: Final = (
    UsageStatistic.AVG,
    UsageStatistic.P50,
    UsageStatistic.P90,
    UsageStatistic.P95,
    UsageStatistic.P99,
    UsageStatistic.STD,
)


def usage_until(
    until_seconds: float,
    cache: MetricStore,
    bound: Iterable[PodOnNode] | None,
    policy: node_metric.MetricCollectPolicy | None,
) -> ReportedUsage:
    """Return the usage of the windows of `policy` that end at `until_seconds` (Unix time).

    `bound` are the pods bound to the node, None until they are known.
    """
    by_key = {SeriesKey(SeriesKind.POD, pod.uid): pod for pod in bound or ()}
    window = TimeWindow(until_seconds, spec_in_force.usage_window_seconds(policy))
    means = aggregation.aggregate(cache.series.samples([NODE, SYSTEM, *by_key], window), (UsageStatistic.AVG,))
    windows = [
        (seconds, _statistics(cache.series, TimeWindow(until_seconds, seconds)))
        for seconds in spec_in_force.aggregate_windows_seconds(policy)
    ]
    return ReportedUsage(
        node=means.usage(UsageStatistic.AVG, NODE),
        system=means.usage(UsageStatistic.AVG, SYSTEM),
        node_windows=[(seconds, statistics[NODE]) for seconds, statistics in windows],
        system_windows=[(seconds, statistics[SYSTEM]) for seconds, statistics in windows],
        pods=[(pod, usage) for key, pod in by_key.items() if (usage := means.usage(UsageStatistic.AVG, key))],
        numa=numa_means.means(cache.of_collectors[NumaCollector.name], window),
        by_class=class_usage.node_usage(until_seconds, cache.series, bound),
    )


def _statistics(cache: MetricCache, window: TimeWindow) -> dict[SeriesKey, Statistics]:
    """Return the statistics of node and system over one window; None where samples span less than half of it."""
    aggregates = aggregation.aggregate(cache.samples((NODE, SYSTEM), window), _REPORTED)
    return {
        key: {name: None if aggregates.is_cold(key) else aggregates.usage(name, key) for name in _REPORTED}
        for key in (NODE, SYSTEM)
    }
