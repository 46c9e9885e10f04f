"""One NodeMetric as it arrives -> the numbers that decisions read (koordinator-loadaware section 6).

Slim structs decode only what is used. Quantities become integers once per report; a broken one makes the usage it
stands in "not reported", never zero.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any, Final

import msgspec
import pydantic

from api_types.colocation import controller_config
from api_types.kubernetes import pods, priority_and_qos, times
from api_types.node_metric import mid_report, reader
from scheduler_plugin.state import aggregated_usage, node_report, vectors
from scheduler_plugin.state.aggregated_usage import AggregatedUsage
from scheduler_plugin.state.estimator import Vector
from scheduler_plugin.state.node_report import NodeReport, VectorTable

DEFAULT_REPORT_INTERVAL_SECONDS: Final = 60
_PROD: Final = priority_and_qos.PriorityClass.PROD.value
_NO_KEYS: Final[Mapping[str, str]] = {}


class _Wire(msgspec.Struct, rename="camel", frozen=True, gc=False):
    """Base of the slim structs."""


_NOTHING: Final = mid_report.WireResources()


class NodeUsage(_Wire, frozen=True, gc=False):
    """Usage of the node."""

    node_usage: mid_report.WireResources = _NOTHING
    system_usage: mid_report.WireResources = _NOTHING
    aggregated_node_usages: msgspec.Raw = aggregated_usage.NONE


class PodUsage(_Wire, frozen=True, gc=False):
    """Usage of one pod."""

    name: str = ""
    namespace: str = ""
    pod_usage: mid_report.WireResources = _NOTHING
    priority: str = ""


class NodePrediction(_Wire, frozen=True, gc=False):
    """What everything on the node together will use (ours)."""

    peak: pods.QuantityMap | None = None


class Prediction(_Wire, frozen=True, gc=False):
    """How the peak was predicted (ours)."""

    node: NodePrediction | None = None


class Status(mid_report.MidReport, rename="camel", frozen=True):
    """What the agent reports: what Mid is calculated from, and usage."""

    node_metric: NodeUsage | None = None
    pods_metric: list[PodUsage | None] | None = None
    prediction: Prediction | None = None


class CollectPolicy(_Wire, frozen=True, gc=False):
    """How often the agent reports."""

    report_interval_seconds: int | None = None


class Spec(_Wire, frozen=True, gc=False):
    """Policies of the node."""

    metric_collect_policy: CollectPolicy | None = None
    mid_colocation_policy: dict[str, Any] | None = None
    """As written (ours)."""


class NodeMetric(reader.NodeMetric, frozen=True, gc=False):
    """The parts of a NodeMetric that scheduling reads."""

    spec: Spec = Spec()
    status: Status = Status()


def pod_key(namespace: str, name: str) -> str:
    """How reports and pods are joined: by name, so that a pod that came back inherits usage until the next report."""
    return f"{namespace}/{name}"


def pod_digest(namespace: str, name: str) -> int:
    """What stands for a pod key where 450,000 texts would be too much."""
    return hash(pod_key(namespace, name))


def read(metric: NodeMetric, resources: tuple[str, ...], known_keys: Mapping[str, str] = _NO_KEYS) -> NodeReport:
    """Turn a NodeMetric into vectors. `known_keys` (key -> the same key) lends its objects: a key takes 110 bytes."""
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
        aggregated=AggregatedUsage(usage.aggregated_node_usages if usage else aggregated_usage.NONE, resources),
        pods=_pods(status.pods_metric or (), resources, known_keys),
        mid_policy=_mid_policy(msgspec.json.encode(metric.spec.mid_colocation_policy)),
        mid_report=mid_report.MidReport(
            status.update_time, status.allocated, status.prod_peak_metric, status.prod_reclaimable_metric
        ),
    )


def _predicted(peak: pods.QuantityMap, usage: NodeUsage | None, resources: tuple[str, ...]) -> Vector | None:
    """Peak of each resource; what is not predicted is as reported, not zero."""
    reported = usage.node_usage.resources if usage else None
    return vectors.vector({**(reported or {}), **peak}, resources)


def _pods(
    items: list[PodUsage | None] | tuple[()], resources: tuple[str, ...], known_keys: Mapping[str, str]
) -> VectorTable[str]:
    """Of several items of one pod the last tells the usage, and any that it is Prod."""
    rows: dict[str, list[int]] = {}
    for item in items:
        if item is None or not item.pod_usage.resources:
            continue
        row = vectors.amounts(item.pod_usage.resources, resources)
        if row is not None:
            key = f"{item.namespace}/{item.name}"
            key = known_keys.get(key, key)
            is_prod = 1 if item.priority == _PROD else rows[key][-1] if key in rows else 0
            row.append(is_prod)
            rows[key] = row
    return node_report.table(rows, len(resources) + 1)


@functools.lru_cache(maxsize=256)
def _mid_policy(document: bytes) -> mid_report.MidPolicy | None:
    """Read the node's policy as the manager wrote it; None without one, with a broken one, and where it is off."""
    try:
        policy = controller_config.MidColocationPolicy.model_validate(msgspec.json.decode(document))
    except pydantic.ValidationError:
        return None
    return mid_report.mid_policy(policy) if policy.enable else None
