"""Pods limited by their CPU limits. Their usage understates what they need, and so does any prediction from it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from api_types.kubernetes.priority_and_qos import PriorityClass
from koordlet.cluster.pods import PodOnNode
from koordlet.collectors import capped_usage
from koordlet.collectors.interface import Collector
from koordlet.metric_cache import series


def prod(collectors: Iterable[Collector], pods_by_uid: Mapping[str, PodOnNode]) -> list[str]:
    """Return the names of the throttled Prod pods, the most throttled first."""
    throttled = [
        (-ratio, f"{pod.namespace}/{pod.name}")
        for uid, ratio in capped_usage.throttled(collectors).items()
        if (pod := pods_by_uid.get(uid)) is not None and series.counted_class(pod.priority_class) == PriorityClass.PROD
    ]
    return [name for _, name in sorted(throttled)]
