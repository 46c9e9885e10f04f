"""Builder of the NodeMetric status from aggregates, requests and a prediction of one snapshot.

Usages are truncated to whole millicores and bytes, as in Koordinator's agent, and predicted peaks are rounded up: a
report errs on the safe side. The order of lists is canonical, so an unchanged node gives an unchanged document.

Size limit of a status: below 256 KiB as JSON. Pods beyond it are left out of `podsMetric`, noted in Ready.

An object of the API server may have 1.5 MiB, but every report goes through etcd and to every watcher each minute. 500
pods with usual names need a third of the limit. Beyond the limit, pods are left out in this order: Free, Batch, Mid,
Prod; within a class the smallest memory usage first, and for equal usage the last name first. The rest of the report
(sums, prediction, conditions) is always complete and computed from all pods.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import pydantic

from api_types import names, wire_model
from api_types.colocation import controller_config
from api_types.kubernetes import priority_and_qos as pq
from api_types.kubernetes import quantities, times
from api_types.node_metric import types as node_metric
from api_types.node_metric import workloads
from koordlet.cluster import spec_in_force
from koordlet.cluster.pods import PodOnNode
from koordlet.prediction import allocation
from koordlet.prediction.allocation import ChargedPod, WholeAmounts
from koordlet.prediction.calibration.history import CALIBRATED_LABELS, ScoreHistogram
from koordlet.prediction.evaluation import Record, Scores
from koordlet.prediction.peaks import NodePeak
from koordlet.prediction.server import Prediction
from koordlet.samples import NumaSample, Resource, UsageSample

LIMIT_BYTES: Final = 256 * 1024
_ORDER: Final = (pq.PriorityClass.PROD, pq.PriorityClass.NONE, pq.PriorityClass.MID, pq.PriorityClass.BATCH)
"""Order in which pods get room; other classes come last."""

_LARGEST_POD_BYTES: Final = 640
"""Upper bound of an entry: a name of 253, a namespace of 63, and the rest of known words and numbers."""
_NOTE_BYTES: Final = 200
"""Upper bound of the text added to the message of Ready."""


@dataclass(frozen=True, slots=True)
class Stated:
    """What the agent states once an hour."""

    at: dt.datetime
    workloads: Sequence[workloads.AddedWorkload]
    scores: Mapping[Resource, ScoreHistogram]


Statistics = Mapping[str, UsageSample | None]
"""Statistic (avg, p50, ... std) -> value over one window, None where the window has too little data."""


@dataclass(frozen=True, slots=True)
class ReportedUsage:
    """Usage of node, system, pods and NUMA nodes up to one instant."""

    node: UsageSample | None
    system: UsageSample | None
    node_windows: Sequence[tuple[int, Statistics]] = ()
    """Window length in seconds, and its statistics."""
    system_windows: Sequence[tuple[int, Statistics]] = ()
    pods: Sequence[tuple[PodOnNode, UsageSample]] = ()
    """Pods with their mean usage."""
    numa: Mapping[int, NumaSample] = field(default_factory=dict)
    """Mean usage by NUMA node; empty on a machine with one node."""
    by_class: ClassUsage | None = None
    """None while node, system or pods are not known."""


@dataclass(frozen=True, slots=True)
class ClassUsage:
    """Usage of the node by priority class, as means over the same samples."""

    prod: UsageSample
    mid: UsageSample
    batch_and_free: UsageSample
    system: UsageSample
    native_mid: UsageSample


@dataclass(frozen=True, slots=True)
class PredictedPeak:
    """A prediction in whole units, ready to be published."""

    prediction: node_metric.PredictionStatus
    peak: Mapping[str, int]
    """Peak[Prod] in millicores and bytes, rounded up."""
    reclaimable: Mapping[str, int]
    """max(0, min(Allocated[Prod] - Peak[Prod], NodeAllocatable - Peak[Prod]))."""
    allocated: WholeAmounts
    """Allocated[Prod] of `reclaimable`."""


def usage(sample: UsageSample | None) -> node_metric.ResourceMap:
    """Return a usage on the wire; no data is an empty map, as in Koordinator's reports."""
    return node_metric.ResourceMap() if sample is None else node_metric.ResourceMap(resources=_truncated(sample))


def _truncated(sample: UsageSample) -> wire_model.ResourceList:
    return {
        names.CPU: quantities.format_cpu_millis(math.trunc(sample.cpu_cores * 1000)),
        names.MEMORY: str(math.trunc(sample.memory_bytes)),
    }


def usage_by_class(by_class: ClassUsage | None) -> node_metric.UsageByClass | None:
    """Return the usage by class on the wire; absent where it is not known."""
    if by_class is None:
        return None
    return node_metric.UsageByClass(
        prod=_truncated(by_class.prod),
        mid=_truncated(by_class.mid),
        batch_and_free=_truncated(by_class.batch_and_free),
        system=_truncated(by_class.system),
        native_mid=_truncated(by_class.native_mid) if any(by_class.native_mid) else None,
    )


def peak_resources(cpu_cores: float, memory_bytes: float) -> wire_model.ResourceList:
    """Return a predicted quantity on the wire, rounded up to whole millicores and bytes."""
    whole = allocation.whole_peak(cpu_cores, memory_bytes)
    return whole_resources({names.CPU: whole.cpu_millis, names.MEMORY: whole.memory_bytes})


def whole_resources(units: Mapping[str, int]) -> wire_model.ResourceList:
    """Return whole units by resource name on the wire."""
    return {name: quantities.format_units(name, value) for name, value in units.items()}


def aggregated(windows: Sequence[tuple[int, Statistics]]) -> list[node_metric.AggregatedUsage]:
    """Return one entry per window, shortest first. A statistic without data keeps its key, with an empty map."""
    return [
        node_metric.AggregatedUsage(
            duration=times.format_duration(seconds), usage={name: usage(value) for name, value in statistics.items()}
        )
        for seconds, statistics in sorted(windows, key=lambda window: window[0])
    ]


def numa_usages(means: Mapping[int, NumaSample]) -> list[node_metric.NumaUsage]:
    """Return one entry per NUMA node, by number. A system share without data is empty."""
    return [
        node_metric.NumaUsage(numa_node_id=number, node_usage=usage(mean.node), system_usage=usage(mean.system))
        for number, mean in sorted(means.items())
    ]


def _allocated(
    bound: Iterable[PodOnNode] | None, predicted: PredictedPeak | None
) -> node_metric.AllocatedMetric | None:
    """Return the requests on the node; those of Prod are the ones from which the prediction subtracts its peak."""
    if bound is None:
        return None
    pods = list(bound)
    mid, not_below = allocation.allocated_to_mid(pods), (pq.PriorityClass.PROD, pq.PriorityClass.NONE)
    below = allocation.requested_by(pod for pod in pods if pod.is_admitted and pod.priority_class not in not_below)
    prod = predicted.allocated if predicted else allocation.allocated_to_prod(pods)
    return node_metric.AllocatedMetric(
        prod=whole_resources({names.CPU: prod.cpu_millis, names.MEMORY: prod.memory_bytes}),
        mid=whole_resources({names.MID_CPU: mid.cpu_millis, names.MID_MEMORY: mid.memory_bytes}),
        below_prod=whole_resources(units(below)) if any(below) else None,
    )


def build(
    sampled_at: dt.datetime,
    observed_generation: int | None,
    reported: ReportedUsage,
    *,
    bound: Iterable[PodOnNode] | None,
    predicted: PredictedPeak | None,
    conditions: list[node_metric.NodeMetricCondition],
    stated: Stated | None = None,
    lacking_history: Sequence[ChargedPod] = (),
) -> node_metric.NodeMetricStatus:
    """Return the status to publish, all of the instant `sampled_at`. `bound` is None while the pods are unknown.

    Without a prediction both Prod metrics are absent, not zero.
    """
    return node_metric.NodeMetricStatus(
        observed_generation=observed_generation,
        update_time=sampled_at,
        node_metric=node_metric.NodeMetricInfo(
            node_usage=usage(reported.node),
            system_usage=usage(reported.system),
            aggregated_node_usages=aggregated(reported.node_windows) or None,
            aggregated_system_usages=aggregated(reported.system_windows) or None,
            numa_usages=numa_usages(reported.numa) or None,
        ),
        pods_metric=[
            node_metric.PodMetricInfo(
                name=pod.name,
                namespace=pod.namespace,
                pod_usage=usage(sample),
                priority=pod.priority_class,
                qos=pod.qos_class,
            )
            for pod, sample in sorted(reported.pods, key=lambda used: (used[0].namespace, used[0].name))
        ]
        or None,
        prod_reclaimable_metric=_wrapped(predicted.reclaimable) if predicted else None,
        prod_peak_metric=_wrapped(predicted.peak) if predicted else None,
        allocated=_allocated(bound, predicted),
        usage=usage_by_class(reported.by_class),
        prediction=predicted.prediction if predicted else None,
        workloads=list(stated.workloads) or None if stated else None,
        workloads_time=stated.at if stated and stated.workloads else None,
        cold_pods=[
            workloads.ColdPod(**pod.owner._asdict(), pod=workloads.pod_hash(pod.uid))
            for pod in lacking_history[: workloads.MOST_HISTORY]
            if pod.owner is not None
        ]
        or None,
        scores=_scores(stated) if stated else None,
        conditions=conditions,
    )


def _scores(stated: Stated) -> workloads.ReportedScores | None:
    """Return the scores on the wire, absent without any."""
    if not any(scores.labels for scores in stated.scores.values()):
        return None
    cpu, memory = (
        workloads.ScoreCells(labels=scores.labels, cells=[list(cell) for cell in scores.cells()])
        for scores in (stated.scores[Resource.CPU], stated.scores[Resource.MEMORY])
    )
    return workloads.ReportedScores(update_time=stated.at, cpu=cpu, memory=memory)


def _wrapped(units: Mapping[str, int]) -> node_metric.ReclaimableMetric:
    return node_metric.ReclaimableMetric(resource=node_metric.ResourceMap(resources=whole_resources(units)))


def fit(status: node_metric.NodeMetricStatus) -> node_metric.NodeMetricStatus:
    """Return the status itself, or one with fewer pods."""
    pods = status.pods_metric or []
    room = LIMIT_BYTES - _json_bytes(status.model_copy(update={"pods_metric": None})) - _NOTE_BYTES
    if len(pods) * _LARGEST_POD_BYTES <= room:
        return status
    named = _fitting(pods, room)
    if len(named) == len(pods):
        return status
    note = (
        f"; {len(pods) - len(named)} of {len(pods)} measured pods are left out of podsMetric, the lowest class and the "
        f"smallest usage first, to keep the report below {LIMIT_BYTES // 1024} KiB"
    )
    return status.model_copy(
        update={
            "pods_metric": [pod for index, pod in enumerate(pods) if index in named] or None,
            "conditions": [
                condition.model_copy(update={"message": f"{condition.message}{note}"})
                if condition.type == "Ready"
                else condition
                for condition in status.conditions or ()
            ],
        }
    )


def _fitting(pods: list[node_metric.PodMetricInfo], room: int) -> set[int]:
    named = set()
    for index in sorted(range(len(pods)), key=lambda index: _urgency(pods[index])):
        room -= _json_bytes(pods[index]) + 1  # for the comma
        if room < 0:
            break
        named.add(index)
    return named


def _urgency(pod: node_metric.PodMetricInfo) -> tuple[int, int, str, str]:
    """Return a sort key that orders pods by the room they get."""
    rank = _ORDER.index(pod.priority) if pod.priority in _ORDER else len(_ORDER)
    used = (pod.pod_usage.resources if pod.pod_usage else None) or {}
    memory = quantities.resource_units(names.MEMORY, used.get(names.MEMORY, 0))
    return rank, -memory, pod.namespace or "", pod.name or ""


def _json_bytes(model: pydantic.BaseModel) -> int:
    return len(model.model_dump_json(by_alias=True, exclude_none=True).encode())


def units(amounts: WholeAmounts) -> dict[str, int]:
    """Return whole amounts by resource name."""
    return {names.CPU: amounts.cpu_millis, names.MEMORY: amounts.memory_bytes}


def _prod(prediction: Prediction) -> node_metric.ProdPrediction:
    cpu, memory = prediction.prod[Resource.CPU], prediction.prod[Resource.MEMORY]
    return node_metric.ProdPrediction(
        peak=whole_resources(units(prediction.prod_peak)),
        class_peak=_term(cpu.class_peak, memory.class_peak),
        pod_sum_peak=_term(cpu.pod_sum_peak, memory.pod_sum_peak),
        cold_requests=_term(cpu.cold_requests, memory.cold_requests),
        system_peak=_term(cpu.system_peak, memory.system_peak),
    )


def _term(cpu_cores: float | None, memory_bytes: float | None) -> wire_model.ResourceList | None:
    return None if cpu_cores is None or memory_bytes is None else peak_resources(cpu_cores, memory_bytes)


def _node(cpu: NodePeak, memory: NodePeak) -> node_metric.NodePrediction:
    return node_metric.NodePrediction(
        mean=peak_resources(cpu.mean, memory.mean),
        stdev=peak_resources(cpu.stdev, memory.stdev),
        peak=peak_resources(cpu.peak, memory.peak),
    )


def publishable(
    prediction: Prediction,
    policy: controller_config.PredictPolicy,
    predicted_at: dt.datetime,
    evaluated: Mapping[str, Record],
    labels: Mapping[Resource, int] | None = None,
) -> PredictedPeak:
    """Return the prediction as published, with the live evaluation: every peak, mean and deviation is rounded up."""
    node = prediction.node
    cpu, memory = prediction.prod[Resource.CPU].level, prediction.prod[Resource.MEMORY].level
    levels = None
    if cpu is not None and memory is not None:
        missing = max(CALIBRATED_LABELS - min((labels or {}).values(), default=0), 0)
        until = predicted_at + dt.timedelta(seconds=missing * prediction.parameters.horizon_seconds)
        levels = node_metric.CalibrationLevels(cpu=cpu, memory=memory, until=until if missing else None)
    return PredictedPeak(
        prediction=node_metric.PredictionStatus(
            predictor=prediction.parameters.predictor,
            parameters=spec_in_force.published_policy(policy, prediction.parameters),
            time=predicted_at,
            since=dt.datetime.fromtimestamp(prediction.since_seconds, dt.UTC),
            level=levels,
            warm_pods=prediction.warm_pods,
            cold_pods=prediction.cold_pods,
            borrowed_pods=prediction.borrowed_pods or None,
            node=_node(node[Resource.CPU], node[Resource.MEMORY]) if node else None,
            prod=_prod(prediction),
            evaluation=publishable_records(evaluated),
        ),
        peak=units(prediction.prod_peak),
        reclaimable=units(prediction.prod_reclaimable),
        allocated=prediction.prod_allocated,
    )


def publishable_records(records: Mapping[str, Record]) -> list[node_metric.PredictorEvaluation] | None:
    """Return one entry for each predictor, None without any. Rounded, because more digits carry no information."""
    return [
        node_metric.PredictorEvaluation(
            predictor=name,
            horizon_seconds=round(record.horizon_seconds),
            cpu=_resource_evaluation(record.scores.get(Resource.CPU)),
            memory=_resource_evaluation(record.scores.get(Resource.MEMORY)),
        )
        for name, record in records.items()
    ] or None


def _resource_evaluation(scores: Scores | None) -> node_metric.ResourceEvaluation | None:
    if scores is None:
        return None
    severity, worst = scores.severity_ratio, scores.worst_hour()
    return node_metric.ResourceEvaluation(
        forecasts=round(scores.forecasts, 1),
        violation_percent=round(100 * scores.violation_ratio, 2),
        severity_percent=None if severity is None else round(100 * severity, 2),
        savings_percent=round(100 * scores.savings_ratio, 2),
        worst_hour=None if worst is None else worst[0],
        worst_hour_violation_percent=None if worst is None else round(100 * worst[1], 2),
    )
