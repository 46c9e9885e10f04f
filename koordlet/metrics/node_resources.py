"""Metrics of the node's resources: what it leaves to pods, what they request, and Prod above its predicted peak."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client import Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from koordlet.cluster.interface import ClusterState
from koordlet.node_observer import NodeObserver
from koordlet.prediction import allocation
from koordlet.prediction.allocation import WholeAmounts
from koordlet.prediction.peak_comparison import PeakComparison
from koordlet.samples import RESOURCES, Resource


class NodeResourcesCollector(Collector):
    """Reads the cluster's view of the node for a scrape."""

    def __init__(self, observer: NodeObserver, cluster: ClusterState, comparison: PeakComparison) -> None:
        self._observer = observer
        self._cluster = cluster
        self._comparison = comparison

    def collect(self) -> Iterable[Metric]:
        """Return allocatable, requests, and the time above the peak; unknown values are absent."""
        allocatable = self._cluster.allocatable
        yield from _amounts(
            "allocatable", "that the node leaves to pods", [] if allocatable is None else [((), allocatable)], ()
        )
        pods = self._observer.pods_by_uid.values() if self._cluster.pods.synced else None
        requests = (
            []
            if pods is None
            else [(("prod",), allocation.allocated_to_prod(pods)), (("mid",), allocation.allocated_to_mid(pods))]
        )
        yield from _amounts(
            "requests",
            "that admitted pods request, by kind: native requests of Prod, or Mid resources",
            requests,
            ("kind",),
        )
        for name, seconds, text in (
            (
                "compared",
                self._comparison.compared,
                "Time for which the usage of Prod and its predicted peak were known.",
            ),
            ("exceeded", self._comparison.exceeded, "Time for which Prod used more than its predicted peak in force."),
        ):
            family = CounterMetricFamily(f"koordlet_prod_peak_{name}_seconds", text, labels=["resource"])
            for resource in RESOURCES:
                family.add_metric([resource], seconds[resource])
            yield family


def _amounts(
    name: str, text: str, rows: Iterable[tuple[tuple[str, ...], WholeAmounts]], labels: tuple[str, ...]
) -> Iterable[Metric]:
    cpu = GaugeMetricFamily(f"koordlet_{name}_cpu_cores", f"CPU {text}.", labels=labels)
    memory = GaugeMetricFamily(f"koordlet_{name}_memory_bytes", f"Memory {text}.", labels=labels)
    for values, amounts in rows:
        cpu.add_metric(values, amounts.in_cores_or_bytes(Resource.CPU))
        memory.add_metric(values, amounts.in_cores_or_bytes(Resource.MEMORY))
    return cpu, memory
