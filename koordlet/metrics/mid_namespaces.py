"""Metrics of the Mid pods of the node by namespace: requested, used, and what suppression takes.

Namespaces are made by tenants, so the largest have a series of their own and the others share one. Values are read
when a scrape arrives, and a namespace without Mid pods on the node has no series.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from prometheus_client import Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from api_types.kubernetes.priority_and_qos import PriorityClass
from koordlet.cluster.pods import PodOnNode
from koordlet.mid_suppression.suppressor import Suppressor
from koordlet.node_observer import NodeObserver
from koordlet.samples import SeriesKey, UsageSample, pod_key

MOST_NAMESPACES: Final = 20
"""Namespaces of a node with series of their own."""
OTHER: Final = "_other"
"""Label of the sum over the other namespaces; an underscore is in the name of no namespace."""


class MidOfNamespace(NamedTuple):
    """Mid resources of one namespace on the node, in cores and bytes."""

    requested_cpu_cores: float = 0.0
    requested_memory_bytes: float = 0.0
    used_cpu_cores: float = 0.0
    used_memory_bytes: float = 0.0
    suppressed_cpu_cores: float = 0.0

    def plus(self, other: MidOfNamespace) -> MidOfNamespace:
        """Return the sum."""
        return MidOfNamespace(*(mine + its for mine, its in zip(self, other, strict=True)))


_MEANINGS: Final = {
    "requested_cpu_cores": "mid-cpu that admitted pods of a namespace request on this node, in cores.",
    "requested_memory_bytes": "mid-memory that admitted pods of a namespace request on this node.",
    "used_cpu_cores": "Newest CPU usage of the Mid pods of a namespace on this node.",
    "used_memory_bytes": "Newest memory usage of the Mid pods of a namespace on this node.",
    "suppressed_cpu_cores": "CPU by which suppression has lowered the limits of the Mid pods of a namespace here.",
}


def by_namespace(
    pods: Iterable[PodOnNode], newest: Mapping[SeriesKey, UsageSample], most: int = MOST_NAMESPACES
) -> dict[str, MidOfNamespace]:
    """Return the Mid resources of each namespace that has some, at most `most` of them and a sum of the others."""
    namespaces: dict[str, MidOfNamespace] = {}
    for pod in pods:
        if not pod.is_admitted or not (pod.mid or pod.priority_class is PriorityClass.MID or _requests(pod)):
            continue
        namespaces[pod.namespace] = namespaces.get(pod.namespace, MidOfNamespace()).plus(_pod_resources(pod, newest))
    if len(namespaces) <= most:
        return namespaces
    largest = sorted(
        namespaces,
        key=lambda name: (-namespaces[name].requested_cpu_cores, -namespaces[name].requested_memory_bytes, name),
    )
    shown = {name: namespaces[name] for name in largest[:most]}
    return {**shown, OTHER: _sum([namespaces[name] for name in largest[most:]])}


def _requests(pod: PodOnNode) -> bool:
    return bool(pod.mid_cpu_request_millis or pod.mid_memory_request_bytes)


def _pod_resources(pod: PodOnNode, newest: Mapping[SeriesKey, UsageSample]) -> MidOfNamespace:
    usage = newest.get(pod_key(pod.uid)) if pod.priority_class is PriorityClass.MID else None
    limited = pod.mid.containers if pod.mid else ()
    return MidOfNamespace(
        pod.mid_cpu_request_millis / 1000,
        pod.mid_memory_request_bytes,
        usage.cpu_cores if usage else 0.0,
        usage.memory_bytes if usage else 0.0,
        sum(max(container.original_millis - container.limit_millis, 0) for container in limited) / 1000,
    )


def _sum(parts: Sequence[MidOfNamespace]) -> MidOfNamespace:
    total = MidOfNamespace()
    for part in parts:
        total = total.plus(part)
    return total


class MidNamespacesCollector(Collector):
    """Reads the pods of the last tick for a scrape."""

    def __init__(self, observer: NodeObserver) -> None:
        self._observer = observer

    def collect(self) -> Iterable[Metric]:
        """Return the Mid resources of each namespace; nothing before the pods are known."""
        namespaces = by_namespace(self._observer.pods_by_uid.values(), self._observer.newest)
        for field, text in _MEANINGS.items():
            family = GaugeMetricFamily(f"koordlet_namespace_mid_{field}", text, labels=["namespace"])
            for namespace, amounts in namespaces.items():
                family.add_metric([namespace], getattr(amounts, field))
            yield family


class SuppressionCollector(Collector):
    """Reads the suppressor for a scrape."""

    def __init__(self, suppressor: Suppressor) -> None:
        self._suppressor = suppressor

    def collect(self) -> Iterable[Metric]:
        """Return patches by outcome, pods with lowered limits, and what Mid pods may use."""
        patches = CounterMetricFamily(
            "koordlet_suppression_patches",
            "Patches of CPU limits of Mid pods, by direction and outcome.",
            labels=["kind", "outcome"],
        )
        for (direction, outcome), count in self._suppressor.sender.patches.items():
            patches.add_metric([direction, outcome], count)
        yield patches
        yield CounterMetricFamily(
            "koordlet_suppression_failures",
            "Plans and patches of the suppression that failed by an error of the agent.",
            self._suppressor.failures,
        )
        yield GaugeMetricFamily(
            "koordlet_suppression_lowered_pods",
            "Mid pods with a CPU limit below their original.",
            self._suppressor.lowered_pods,
        )
        yield GaugeMetricFamily(
            "koordlet_suppression_threshold_ratio",
            "Share of the node's CPU above which limits are lowered; 0 while suppression is off or not known.",
            (self._suppressor.threshold_percent() or 0) / 100,
        )
        allowed = GaugeMetricFamily(
            "koordlet_suppression_allowed_cpu_cores",
            "CPU that the Mid pods may use; absent while suppression is off or blind.",
            labels=[],
        )
        if self._suppressor.planner.allowed_millis is not None:
            allowed.add_metric([], self._suppressor.planner.allowed_millis / 1000)
        yield allowed
