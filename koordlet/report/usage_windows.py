"""Usage of a report: means and statistics of the cached samples over the windows of the spec.

Usage by priority class: means over the newest samples in which node and system are known.
Every mean is over the same instants. A pod without a sample at one of them used nothing, or its usage is part of the
system's. Therefore the four parts add up to the usage of the node:

    system = max(node - prod - mid - batch and free, 0)
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import numpy as np

from api_types.kubernetes.priority_and_qos import PriorityClass
from api_types.node_metric import types as node_metric
from koordlet.cluster import spec_in_force
from koordlet.cluster.pods import PodOnNode
from koordlet.collectors import rates
from koordlet.collectors.numa import NumaCollector
from koordlet.metric_cache import aggregation, series
from koordlet.metric_cache.aggregation import TimeWindow, UsageStatistic
from koordlet.metric_cache.ring import LongWindowCache
from koordlet.metric_cache.store import MetricStore
from koordlet.prediction.histogram_bank import FloatArray
from koordlet.report.status import ClassUsage, ReportedUsage, Statistics
from koordlet.samples import NODE, SYSTEM, NumaSample, SeriesKey, SeriesKind, UsageSample

CLASS_WINDOW_SECONDS: Final = 30.0
_NODE_AND_SYSTEM: Final = 2


def node_usage(until_seconds: float, cache: LongWindowCache, bound: Iterable[PodOnNode] | None) -> ClassUsage | None:
    """Return the usage by class of the last 30 s; None while node or system have no sample, or the pods are unknown.

    `bound` are the pods bound to the node, None until they are known. A pod that is not among them counts as system.
    """
    if bound is None:
        return None
    pods = list(bound)
    keys = (NODE, SYSTEM, *(SeriesKey(SeriesKind.POD, pod.uid) for pod in pods))
    values = cache.samples(keys, TimeWindow(until_seconds, CLASS_WINDOW_SECONDS)).values.astype(np.float64)
    measured = np.isfinite(values[:, :_NODE_AND_SYSTEM]).all(axis=(0, 1))
    if not measured.any():
        return None
    means = np.nan_to_num(values[..., measured]).mean(axis=-1)
    classes = [series.counted_class(pod.priority_class) for pod in pods]

    def total(*members: PriorityClass, most: float | FloatArray = np.inf) -> UsageSample:
        chosen = np.array([pod_class in members for pod_class in classes], bool)
        return UsageSample(*np.minimum(means[:, _NODE_AND_SYSTEM:], most)[:, chosen].sum(axis=1).tolist())

    node = UsageSample(*means[:, 0].tolist())
    parts = total(PriorityClass.PROD), total(PriorityClass.MID), total(PriorityClass.BATCH, PriorityClass.FREE)
    # of what requests no Mid; CPU beyond a native request is given back at once
    cores = [0 if pod.mid_cpu_request_millis else pod.cpu_request_millis / 1000 for pod in pods]
    memory = [0 if pod.mid_memory_request_bytes else np.inf for pod in pods]
    native = total(PriorityClass.MID, most=np.array([cores, memory]))
    return ClassUsage(*parts, system=rates.system_usage(node, parts), native_mid=native)


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
        numa=numa_means(cache.of_collectors[NumaCollector.name], window),
        by_class=node_usage(until_seconds, cache.series, bound),
    )


def _statistics(cache: LongWindowCache, window: TimeWindow) -> dict[SeriesKey, Statistics]:
    """Return the statistics of node and system over one window; None where samples span less than half of it."""
    aggregates = aggregation.aggregate(cache.samples((NODE, SYSTEM), window), _REPORTED)
    return {
        key: {name: None if aggregates.is_cold(key) else aggregates.usage(name, key) for name in _REPORTED}
        for key in (NODE, SYSTEM)
    }


def numa_means(cache: LongWindowCache, window: TimeWindow) -> dict[int, NumaSample]:
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
