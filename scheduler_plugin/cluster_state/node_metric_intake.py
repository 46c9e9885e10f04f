"""One NodeMetric as it arrives -> the numbers that decisions read (koordinator-loadaware section 6).

Slim structs decode only what is used. Quantities become integers once per report; a broken one makes the usage it
stands in "not reported", never zero.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec
import pydantic

from api_types import mid_report, names, pods, priority_and_qos, quantities, slo_controller_config
from scheduler_plugin.cluster_state import times
from scheduler_plugin.cluster_state.estimation import LARGEST, Vector

DEFAULT_REPORT_INTERVAL_SECONDS: Final = 60
_PROD: Final = priority_and_qos.PriorityClass.PROD.value


class _Wire(msgspec.Struct, rename="camel", frozen=True, gc=False):
    """Base of the slim structs."""


class ResourceMap(_Wire, frozen=True, gc=False):
    """Quantities by resource name."""

    resources: pods.QuantityMap | None = None


_NOTHING: Final = ResourceMap()


class AggregatedUsage(_Wire, frozen=True, gc=False):
    """Statistics over one window."""

    duration: str = "0s"
    usage: dict[str, ResourceMap] | None = None


class NodeUsage(_Wire, frozen=True, gc=False):
    """Usage of the node."""

    node_usage: ResourceMap = _NOTHING
    system_usage: ResourceMap = _NOTHING
    aggregated_node_usages: list[AggregatedUsage] | None = None


class PodUsage(_Wire, frozen=True, gc=False):
    """Usage of one pod."""

    name: str = ""
    namespace: str = ""
    pod_usage: ResourceMap = _NOTHING
    priority: str = ""


class Status(mid_report.MidReport, rename="camel", frozen=True):
    """What the agent reports: what Mid is calculated from, and usage."""

    node_metric: NodeUsage | None = None
    pods_metric: list[PodUsage | None] | None = None


class CollectPolicy(_Wire, frozen=True, gc=False):
    """How often the agent reports."""

    report_interval_seconds: int | None = None


class Spec(_Wire, frozen=True, gc=False):
    """Policies of the node."""

    metric_collect_policy: CollectPolicy | None = None
    mid_colocation_policy: dict[str, Any] | None = None
    """As written (ours)."""


class NodeMetric(_Wire, frozen=True, gc=False):
    """The parts of a NodeMetric that scheduling reads."""

    metadata: pods.ObjectMeta = pods.ObjectMeta()
    spec: Spec = Spec()
    status: Status = Status()


@dataclass(frozen=True, slots=True)
class LoadReport:
    """One report in vectors over the policy's resources."""

    update_time: float | None
    """Time of the sample, seconds since the epoch; None where the report does not say."""
    interval_seconds: float
    node_usage: Vector | None
    """None only where the report has no usable node usage at all."""
    system_usage: Vector
    aggregated: Mapping[tuple[str, int], Vector]
    """(statistic, window in nanoseconds) -> usage; window 0 is the longest one reported."""
    pod_usage: Mapping[str, Vector]
    """By `pod_key`."""
    prod_pods: frozenset[str]
    """Keys of the pods that the report lists as Prod."""
    mid_policy: mid_report.MidPolicy | None
    """How the manager calculates Mid on this node; None where it does not say, or colocation is off."""
    mid_report: mid_report.MidReport
    """What Mid is calculated from."""


def pod_key(namespace: str, name: str) -> str:
    """How reports and pods are joined: by name, so that a pod that came back inherits usage until the next report."""
    return f"{namespace}/{name}"


def read(metric: NodeMetric, resources: tuple[str, ...]) -> LoadReport:
    """Turn a NodeMetric into vectors."""
    status = metric.status
    policy = metric.spec.metric_collect_policy
    interval = policy.report_interval_seconds if policy else None
    usage = status.node_metric
    pod_usage: dict[str, Vector] = {}
    prod_pods = set()
    for item in status.pods_metric or ():
        if item is None or not item.pod_usage.resources:
            continue
        vector = _vector(item.pod_usage.resources, resources)
        if vector is not None:
            key = pod_key(item.namespace, item.name)
            pod_usage[key] = vector
            if item.priority == _PROD:
                prod_pods.add(key)
    return LoadReport(
        update_time=times.moment_or_none(status.update_time),
        interval_seconds=DEFAULT_REPORT_INTERVAL_SECONDS if interval is None else interval,
        node_usage=_vector(usage.node_usage.resources, resources) if usage else None,
        system_usage=(_vector(usage.system_usage.resources, resources) if usage else None) or (0,) * len(resources),
        aggregated=_aggregated(usage.aggregated_node_usages or (), resources) if usage else {},
        pod_usage=pod_usage,
        prod_pods=frozenset(prod_pods),
        mid_policy=_mid_policy(msgspec.json.encode(metric.spec.mid_colocation_policy)),
        mid_report=mid_report.MidReport(
            status.update_time, status.allocated, status.prod_peak_metric, status.prod_reclaimable_metric
        ),
    )


@functools.lru_cache(maxsize=256)
def _mid_policy(document: bytes) -> mid_report.MidPolicy | None:
    """Read the node's policy as the manager wrote it; None without one, with a broken one, and where it is off."""
    try:
        policy = slo_controller_config.MidColocationPolicy.model_validate(msgspec.json.decode(document))
    except pydantic.ValidationError:
        return None
    return mid_report.mid_policy(policy) if policy.enable else None


def _aggregated(
    entries: list[AggregatedUsage] | tuple[()], resources: tuple[str, ...]
) -> dict[tuple[str, int], Vector]:
    by_window: dict[tuple[str, int], Vector] = {}
    longest: dict[str, int] = {}
    for entry in entries:
        try:
            window = times.duration_nanos(entry.duration)
        except ValueError:
            continue
        for statistic, usage in (entry.usage or {}).items():
            vector = _vector(usage.resources, resources) if usage.resources else None
            if vector is not None:
                by_window[statistic, window] = vector
                longest[statistic] = max(longest.get(statistic, 0), window)
    return by_window | {(statistic, 0): by_window[statistic, window] for statistic, window in longest.items()}


def _vector(quantity_map: pods.QuantityMap | None, resources: tuple[str, ...]) -> Vector | None:
    """Units of each resource, 0 where it is absent; None where one cannot be read or cannot be."""
    if not quantity_map:
        return (0,) * len(resources)
    vector = []
    for name in resources:
        quantity = quantity_map.get(name)
        try:
            amount = 0 if quantity is None else _units(name, quantity)
        except quantities.InvalidQuantity:
            return None
        if not 0 <= amount <= LARGEST:
            return None
        vector.append(amount)
    return tuple(vector)


def _units(resource: str, quantity: str | float) -> int:
    """`quantities.resource_units`, the two spellings of an agent's reports first: plain digits, and milli-cores."""
    if type(quantity) is str and quantity.isascii():
        if resource != names.CPU:
            if quantity.isdigit():
                return int(quantity)
        elif quantity[-1:] == "m" and quantity[:-1].isdigit():
            return int(quantity[:-1])
    return quantities.resource_units(resource, quantity)
