"""Pods limited by their CPU limits. Their usage understates what they need, and so does any prediction from it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from api_types.kubernetes.priority_and_qos import PriorityClass
from koordlet.cluster.pods import PodOnNode
from koordlet.collectors import pod_pressure
from koordlet.collectors.interface import Collector
from koordlet.metric_cache import series

LEAST_THROTTLED_RATIO: Final = 0.25
"""Smallest share of throttled periods of a throttled pod; alerts on Kubernetes usually use the same."""


def prod(collectors: Iterable[Collector], pods_by_uid: Mapping[str, PodOnNode]) -> list[str]:
    """Return the names of the throttled Prod pods, the most throttled first."""
    found = [
        (-measured.value, f"{pod.namespace}/{pod.name}")
        for collector in collectors
        if pod_pressure.THROTTLED_RATIO in collector.metrics
        for measured in collector.measurements(pod_pressure.THROTTLED_RATIO)
        if measured.value >= LEAST_THROTTLED_RATIO
        and (pod := pods_by_uid.get(measured.pod_uid)) is not None
        and series.counted_class(pod.priority_class) == PriorityClass.PROD
    ]
    return [name for _, name in sorted(found)]
