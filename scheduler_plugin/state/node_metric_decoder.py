"""Decode NodeMetrics: from the object on the wire to the numbers that decisions read.

Slim structs decode only what is used. Quantities become integers once per report. A malformed quantity makes the usage
that contains it "not reported", never zero.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any, Final

import msgspec
import pydantic

from api_types.colocation import controller_config
from api_types.kubernetes import pods, priority_and_qos, times
from api_types.node_metric import mid_report
from scheduler_plugin.state import node_report, vectors
from scheduler_plugin.state.node_report import NodeReport, StatisticsByWindow, VectorTable
from scheduler_plugin.state.vectors import Vector

DEFAULT_REPORT_INTERVAL_SECONDS: Final = 60
_PROD: Final = priority_and_qos.PriorityClass.PROD.value
_NO_KEYS: Final[Mapping[str, str]] = {}


class _Wire(msgspec.Struct, rename="camel", frozen=True, gc=False):
    """Base of the slim structs."""


_NOTHING: Final = mid_report.WireResources()


class ReportedNodeUsage(mid_report.WireNodeUsage, rename="camel", frozen=True):
    """Usage of the node."""

    system_usage: mid_report.WireResources = _NOTHING
    aggregated_node_usages: msgspec.Raw = node_report.NO_STATISTICS


class ReportedPodUsage(_Wire, frozen=True, gc=False):
    """Usage of one pod."""

    name: str = ""
    namespace: str = ""
    pod_usage: mid_report.WireResources = _NOTHING
    priority: str = ""


class LoadPrediction(_Wire, frozen=True, gc=False):
    """Predicted peak of all pods and the system together (this suite's extension)."""

    peak: pods.QuantityMap | None = None


class ReportedPrediction(_Wire, frozen=True, gc=False):
    """Prediction of the peak (this suite's extension)."""

    node: LoadPrediction | None = None


class ReportStatus(mid_report.MidReport, rename="camel", frozen=True):
    """Report of the agent: the inputs of the Mid formula, and usage."""

    node_metric: ReportedNodeUsage | None = None
    pods_metric: list[ReportedPodUsage | None] | None = None
    prediction: ReportedPrediction | None = None


class CollectPolicy(_Wire, frozen=True, gc=False):
    """Report interval of the agent."""

    report_interval_seconds: int | None = None


class Spec(_Wire, frozen=True, gc=False):
    """Policies of the node."""

    metric_collect_policy: CollectPolicy | None = None
    mid_colocation_policy: dict[str, Any] | None = None
    """As written (this suite's extension)."""


class NodeMetric(mid_report.NodeMetric, frozen=True, gc=False):
    """The parts of a NodeMetric that scheduling reads."""

    spec: Spec = Spec()
    status: ReportStatus = ReportStatus()


def read(metric: NodeMetric, resources: tuple[str, ...], known_keys: Mapping[str, str] = _NO_KEYS) -> NodeReport:
    """Convert a NodeMetric into vectors.

    `known_keys` maps a pod key to the same key: its objects are used again, because each copy takes 110 bytes.
    """
    status = metric.status
    policy = metric.spec.metric_collect_policy
    interval = policy.report_interval_seconds if policy else None
    usage = status.node_metric
    predicted = status.prediction.node if status.prediction else None
    system_usage = vectors.vector(usage.system_usage.resources, resources) if usage else None
    return NodeReport(
        update_time=times.epoch_seconds_or_none(status.update_time),
        interval_seconds=DEFAULT_REPORT_INTERVAL_SECONDS if interval is None else interval,
        node_usage=vectors.vector(usage.node_usage.resources, resources) if usage else None,
        system_usage=system_usage or (0,) * len(resources),
        predicted_usage=_predicted(predicted.peak, usage, resources) if predicted and predicted.peak else None,
        aggregated=StatisticsByWindow(usage.aggregated_node_usages if usage else node_report.NO_STATISTICS, resources),
        pods=_pods(status.pods_metric or (), resources, known_keys),
        mid_policy=_mid_policy(msgspec.json.encode(metric.spec.mid_colocation_policy)),
        mid_report=mid_report.MidReport(
            update_time=status.update_time,
            allocated=status.allocated,
            usage=status.usage,
            node_metric=mid_report.WireNodeUsage(usage.node_usage) if usage and status.usage is None else None,
            prod_peak_metric=status.prod_peak_metric,
            prod_reclaimable_metric=status.prod_reclaimable_metric,
        ),
    )


def _predicted(peak: pods.QuantityMap, usage: ReportedNodeUsage | None, resources: tuple[str, ...]) -> Vector | None:
    """Return the peak of each resource; a resource without a prediction is as reported, not zero."""
    reported = usage.node_usage.resources if usage else None
    return vectors.vector({**(reported or {}), **peak}, resources)


def _pods(
    items: list[ReportedPodUsage | None] | tuple[()], resources: tuple[str, ...], known_keys: Mapping[str, str]
) -> VectorTable[str]:
    """Pack the pods' usage. Of several items of one pod the last gives the usage, and any of them marks it as Prod."""
    rows: dict[str, list[int]] = {}
    for item in items:
        if item is None or not item.pod_usage.resources:
            continue
        row = vectors.amounts(item.pod_usage.resources, resources)
        if row is not None:
            key = f"{item.namespace}/{item.name}"  # pod_info.pod_key, without the call: a hundred times per report
            key = known_keys.get(key, key)
            is_prod = 1 if item.priority == _PROD else rows[key][-1] if key in rows else 0
            row.append(is_prod)
            rows[key] = row
    return node_report.table(rows, len(resources) + 1)


@functools.lru_cache(maxsize=256)
def _mid_policy(document: bytes) -> mid_report.MidPolicy | None:
    """Decode the node's policy as the manager wrote it; None if it is absent or malformed."""
    try:
        policy = controller_config.MidColocationPolicy.model_validate(msgspec.json.decode(document))
    except pydantic.ValidationError:
        return None
    return mid_report.mid_policy(policy)
