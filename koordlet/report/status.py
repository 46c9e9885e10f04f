"""Aggregates, requests and a prediction of one snapshot -> the NodeMetric status (design 3.3).

Usages are cut to whole milli-cores and bytes as upstream's agent does, predicted peaks are rounded up: a report errs
on the safe side. List order is canonical, so that an unchanged node gives an unchanged document.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from api_types import names, wire_model
from api_types.kubernetes import priority_and_qos as pq
from api_types.kubernetes import quantities, times
from api_types.node_metric import types as node_metric
from koordlet.cluster.pods import PodOnNode
from koordlet.prediction import reclaimable
from koordlet.samples import NumaSample, UsageSample

Statistics = Mapping[str, UsageSample | None]
"""Statistic (avg, p50, ... std) -> value over one window, None where the window has too little data."""


@dataclass(frozen=True, slots=True)
class PredictedPeak:
    """A prediction in whole units, ready to be published."""

    prediction: node_metric.Prediction
    peak: Mapping[str, int]
    """Peak[Prod] in milli-cores and bytes, rounded up."""
    reclaimable: Mapping[str, int]
    """max(0, min(Allocated[Prod] - Peak[Prod], NodeAllocatable - Peak[Prod]))."""


@dataclass(frozen=True, slots=True)
class Report:
    """What one report is made of; all of it belongs to the instant `sampled_at`."""

    sampled_at: dt.datetime
    observed_generation: int | None
    node_usage: UsageSample | None
    system_usage: UsageSample | None
    node_windows: Sequence[tuple[int, Statistics]]
    """Window length in seconds, and its statistics."""
    system_windows: Sequence[tuple[int, Statistics]]
    pods: Iterable[tuple[PodOnNode, UsageSample]]
    """Pods with their mean usage."""
    bound: Iterable[PodOnNode] | None
    """Pods bound to the node; None while the apiserver has not told yet."""
    predicted: PredictedPeak | None
    conditions: list[node_metric.Condition]
    numa: Mapping[int, NumaSample] = field(default_factory=dict)
    """Mean usage by NUMA node; empty where there is only one."""


def usage(sample: UsageSample | None) -> node_metric.ResourceMap:
    """A usage on the wire; no data is an empty map, as upstream has it."""
    if sample is None:
        return node_metric.ResourceMap()
    return node_metric.ResourceMap(
        resources={
            names.CPU: quantities.format_cpu_millis(math.trunc(sample.cpu_cores * 1000)),
            names.MEMORY: quantities.format_bytes(math.trunc(sample.memory_bytes)),
        }
    )


def peak_resources(cpu_cores: float, memory_bytes: float) -> wire_model.ResourceList:
    """A predicted quantity on the wire, rounded up to whole milli-cores and bytes."""
    whole = reclaimable.whole_peak(cpu_cores, memory_bytes)
    return whole_resources({names.CPU: whole.cpu_millis, names.MEMORY: whole.memory_bytes})


def whole_resources(units: Mapping[str, int]) -> wire_model.ResourceList:
    """Whole units by resource name on the wire."""
    return {name: quantities.format_units(name, value) for name, value in units.items()}


def aggregated(windows: Sequence[tuple[int, Statistics]]) -> list[node_metric.AggregatedUsage]:
    """One entry a window, shortest first; a statistic without data keeps its key and has an empty map."""
    return [
        node_metric.AggregatedUsage(
            duration=times.format_duration(seconds),
            usage={name: usage(value) for name, value in statistics.items()},
        )
        for seconds, statistics in sorted(windows, key=lambda window: window[0])
    ]


def numa_usages(means: Mapping[int, NumaSample]) -> list[node_metric.NumaUsage]:
    """One entry a NUMA node, by number; without data of its system share that share is empty."""
    return [
        node_metric.NumaUsage(numa_node_id=number, node_usage=usage(mean.node), system_usage=usage(mean.system))
        for number, mean in sorted(means.items())
    ]


def prod_requests(bound: Iterable[PodOnNode]) -> dict[str, int]:
    """Allocated[Prod]: native requests of the Prod pods that have not ended, in milli-cores and bytes."""
    prod = [pod for pod in bound if pod.priority_class is pq.PriorityClass.PROD and not pod.is_terminated]
    return {
        names.CPU: sum(pod.cpu_request_millis for pod in prod),
        names.MEMORY: sum(pod.memory_request_bytes for pod in prod),
    }


def mid_requests(bound: Iterable[PodOnNode]) -> dict[str, int]:
    """Allocated[Mid]: Mid requests of all pods that have not ended, in the tier's own units."""
    active = [pod for pod in bound if not pod.is_terminated]
    return {
        names.MID_CPU: sum(pod.mid_cpu_request_millis for pod in active),
        names.MID_MEMORY: sum(pod.mid_memory_request_bytes for pod in active),
    }


def build(report: Report) -> node_metric.NodeMetricStatus:
    """The status to publish. Both Prod metrics are absent, not zero, when there is no prediction."""
    bound = None if report.bound is None else list(report.bound)
    predicted = report.predicted
    return node_metric.NodeMetricStatus(
        observed_generation=report.observed_generation,
        update_time=report.sampled_at,
        node_metric=node_metric.NodeMetricInfo(
            node_usage=usage(report.node_usage),
            system_usage=usage(report.system_usage),
            aggregated_node_usages=aggregated(report.node_windows) or None,
            aggregated_system_usages=aggregated(report.system_windows) or None,
            numa_usages=numa_usages(report.numa) or None,
        ),
        pods_metric=[
            node_metric.PodMetricInfo(
                name=pod.name,
                namespace=pod.namespace,
                pod_usage=usage(sample),
                priority=pod.priority_class,
                qos=pod.qos_class,
            )
            for pod, sample in sorted(report.pods, key=lambda each: (each[0].namespace, each[0].name))
        ]
        or None,
        prod_reclaimable_metric=_wrapped(predicted.reclaimable) if predicted else None,
        prod_peak_metric=_wrapped(predicted.peak) if predicted else None,
        allocated=None
        if bound is None
        else node_metric.AllocatedMetric(
            prod=whole_resources(prod_requests(bound)), mid=whole_resources(mid_requests(bound))
        ),
        prediction=predicted.prediction if predicted else None,
        conditions=report.conditions,
    )


def _wrapped(units: Mapping[str, int]) -> node_metric.ReclaimableMetric:
    return node_metric.ReclaimableMetric(resource=node_metric.ResourceMap(resources=whole_resources(units)))
