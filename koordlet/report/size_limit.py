"""Size limit of a status: below 256 KiB as JSON. Pods beyond it are left out of `podsMetric`, noted in Ready.

An object of the API server may have 1.5 MiB, but every report goes through etcd and to every watcher each minute. 500
pods with usual names need a third of the limit. Beyond the limit, pods are left out in this order: Free, Batch, Mid,
Prod; within a class the smallest memory usage first, and for equal usage the last name first. The rest of the report
(sums, prediction, conditions) is always complete and computed from all pods. Pure.
"""

from __future__ import annotations

from typing import Final

import pydantic

from api_types import names
from api_types.kubernetes import priority_and_qos as pq
from api_types.kubernetes import quantities
from api_types.node_metric import types as node_metric

LIMIT_BYTES: Final = 256 * 1024
_ORDER: Final = (pq.PriorityClass.PROD, pq.PriorityClass.NONE, pq.PriorityClass.MID, pq.PriorityClass.BATCH)
"""Order in which pods get room; other classes come last."""

_LARGEST_POD_BYTES: Final = 640
"""Upper bound of an entry: a name of 253, a namespace of 63, and the rest of known words and numbers."""
_NOTE_BYTES: Final = 200
"""Upper bound of the text added to the message of Ready."""


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
            "conditions": [_noted(condition, note) for condition in status.conditions or ()],
        }
    )


def _fitting(pods: list[node_metric.PodMetricInfo], room: int) -> set[int]:
    """Return the positions of the pods that fit."""
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
    return rank, -quantities.whole_units(used.get(names.MEMORY, 0)), pod.namespace or "", pod.name or ""


def _noted(condition: node_metric.NodeMetricCondition, note: str) -> node_metric.NodeMetricCondition:
    return (
        condition.model_copy(update={"message": f"{condition.message}{note}"})
        if condition.type == "Ready"
        else condition
    )


def _json_bytes(model: pydantic.BaseModel) -> int:
    return len(model.model_dump_json(by_alias=True, exclude_none=True).encode())
