"""Usage of the node by priority class: means over the newest samples in which node and system are known.

Every mean is over the same instants. A pod without a sample at one of them used nothing, or its usage is part of the
system's. Therefore the four parts add up to the usage of the node:

    system = max(node - prod - mid - batch and free, 0)
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final

import numpy as np

from api_types.kubernetes.priority_and_qos import PriorityClass
from koordlet.cluster.pods import PodOnNode
from koordlet.collectors import rates
from koordlet.metric_cache import series
from koordlet.metric_cache.interface import MetricCache, TimeWindow
from koordlet.report.status import ClassUsage
from koordlet.samples import NODE, SYSTEM, SeriesKey, SeriesKind, UsageSample

WINDOW_SECONDS: Final = 30.0
_NODE_AND_SYSTEM: Final = 2


def node_usage(until_seconds: float, cache: MetricCache, bound: Iterable[PodOnNode] | None) -> ClassUsage | None:
    """Return the usage by class of the last 30 s; None while node or system have no sample, or the pods are unknown.

    `bound` are the pods bound to the node, None until they are known. A pod that is not among them counts as system.
    """
    if bound is None:
        return None
    pods = list(bound)
    keys = (NODE, SYSTEM, *(SeriesKey(SeriesKind.POD, pod.uid) for pod in pods))
    values = cache.samples(keys, TimeWindow(until_seconds, WINDOW_SECONDS)).values.astype(np.float64)
    measured = np.isfinite(values[:, :_NODE_AND_SYSTEM]).all(axis=(0, 1))
    if not measured.any():
        return None
    means = np.nan_to_num(values[..., measured]).mean(axis=-1)
    classes = [series.counted_class(pod.priority_class) for pod in pods]

    def total(*members: PriorityClass) -> UsageSample:
        return _sum(means[:, _NODE_AND_SYSTEM:], classes, members)

    node = UsageSample(*means[:, 0].tolist())
    parts = total(PriorityClass.PROD), total(PriorityClass.MID), total(PriorityClass.BATCH, PriorityClass.FREE)
    return ClassUsage(*parts, system=rates.system_usage(node, parts))


def _sum(
    means: np.ndarray[tuple[int, ...], np.dtype[np.float64]],
    classes: Collection[PriorityClass],
    members: Collection[PriorityClass],
) -> UsageSample:
    chosen = np.fromiter((pod_class in members for pod_class in classes), bool, len(classes))
    return UsageSample(*means[:, chosen].sum(axis=1).tolist())
