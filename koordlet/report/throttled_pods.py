"""Which pods their CPU limits hold back: their usage, and what is learnt from it, says what they got, not needed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from api_types.kubernetes.priority_and_qos import PriorityClass
from koordlet.cluster.pods import PodOnNode
from koordlet.collectors.pod_pressure import PodStall
from koordlet.metric_cache import series

THROTTLED_RATIO: Final = 0.25
"""From this share of throttled periods on a pod counts as throttled; alerts on Kubernetes usually take the same."""


def prod(stalls: Iterable[tuple[PodOnNode, PodStall]]) -> list[str]:
    """Names of the Prod pods that are throttled, worst first."""
    found = [
        (-stall.throttled_ratio, f"{pod.namespace}/{pod.name}")
        for pod, stall in stalls
        if stall.throttled_ratio is not None
        and stall.throttled_ratio >= THROTTLED_RATIO
        and series.counted_class(pod.priority_class) == PriorityClass.PROD
    ]
    return [name for _, name in sorted(found)]
