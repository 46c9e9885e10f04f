"""A status stays below 256 KiB as JSON: what does not fit is left out of `podsMetric`, by rule, and Ready says so.

An object of the apiserver may have 1.5 MiB, yet every report goes through etcd and to every watcher each minute. 500
pods of usual names need a third of the limit. Only beyond it pods are left out: Free first, then Batch, Mid, and Prod
at last; within a class the smallest memory usage first, the last name first where that is equal. Everything else of the
report (sums, prediction, conditions) is always whole, and is calculated from all pods. Pure.
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
"""The order in which pods get room; a class that is not named comes last."""

_LARGEST_POD_BYTES: Final = 640
"""More than an entry can have: a name of 253, a namespace of 63, and the rest of known words and numbers."""
_NOTE_BYTES: Final = 200
"""More than Ready's message grows by."""


def fit(status: node_metric.NodeMetricStatus) -> node_metric.NodeMetricStatus:
    """The status itself, or one that names fewer pods."""
    pods = status.pods_metric or []
    room = LIMIT_BYTES - _json_bytes(status.model_copy(update={"pods_metric": None})) - _NOTE_BYTES
    if len(pods) * _LARGEST_POD_BYTES <= room:
        return status
    kept = _that_fit(pods, room)
    if len(kept) == len(pods):
        return status
    note = (
        f"; {len(pods) - len(kept)} of {len(pods)} measured pods are left out of podsMetric, the lowest class and the "
        f"smallest first, to keep the report below {LIMIT_BYTES // 1024} KiB"
    )
    return status.model_copy(
        update={
            "pods_metric": [pod for index, pod in enumerate(pods) if index in kept] or None,
            "conditions": [_noted(condition, note) for condition in status.conditions or ()],
        }
    )


def _that_fit(pods: list[node_metric.PodMetricInfo], room: int) -> set[int]:
    """Positions of the pods for which there is room."""
    kept = set()
    for index in sorted(range(len(pods)), key=lambda index: _urgency(pods[index])):
        room -= _json_bytes(pods[index]) + 1  # and a comma
        if room < 0:
            break
        kept.add(index)
    return kept


def _urgency(pod: node_metric.PodMetricInfo) -> tuple[int, int, str, str]:
    """Sorts those first that are left out last."""
    rank = _ORDER.index(pod.priority) if pod.priority in _ORDER else len(_ORDER)
    used = (pod.pod_usage.resources if pod.pod_usage else None) or {}
    return rank, -quantities.whole_units(used.get(names.MEMORY, 0)), pod.namespace or "", pod.name or ""


def _noted(condition: node_metric.Condition, note: str) -> node_metric.Condition:
    return (
        condition.model_copy(update={"message": f"{condition.message}{note}"})
        if condition.type == "Ready"
        else condition
    )


def _json_bytes(model: pydantic.BaseModel) -> int:
    return len(model.model_dump_json(by_alias=True, exclude_none=True).encode())
