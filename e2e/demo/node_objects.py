"""What the demo reads of its node: allocatable resources, requests, the usage of the newest report."""

from __future__ import annotations

from e2e.demo.checks import Amount
from tools.localcluster.access import Cluster


class NodeObjects:
    """Reads objects about one node, new from the apiserver with each call."""

    def __init__(self, cluster: Cluster, node: str) -> None:
        self._cluster = cluster
        self._node = node

    def allocatable(self) -> Amount:
        """Return native CPU and memory that the node can allocate."""
        return Amount.of(self._cluster.get("node", self._node)["status"]["allocatable"])

    def requested(self) -> Amount:
        """Return the requests of all pods on the node."""
        pods = self._cluster.get("pods", "--all-namespaces", f"--field-selector=spec.nodeName={self._node}")["items"]
        requests = [
            Amount.of(container.get("resources", {}).get("requests", {}))
            for pod in pods
            if pod["status"].get("phase") not in {"Succeeded", "Failed"}
            for container in pod["spec"]["containers"]
        ]
        return Amount(sum(each.cpu_millis for each in requests), sum(each.memory_bytes for each in requests))

    def used(self) -> Amount:
        """Return the usage of the whole node, by the newest report."""
        report = self._cluster.get("nodemetrics", self._node)["status"]
        return Amount.of(report["nodeMetric"]["nodeUsage"]["resources"])
