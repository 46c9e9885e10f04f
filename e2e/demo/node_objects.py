"""What the demo reads of its node: NodeMetric, status annotation, Mid resources, requests."""

from __future__ import annotations

import json
from typing import Any

from e2e.demo import checks
from e2e.demo.checks import Amount
from e2e.demo.console import DemoStopped, NotYet
from e2e.support.names import MID_CPU, MID_MEMORY, STATUS_ANNOTATION
from tools.localcluster.access import Cluster


class NodeObjects:
    """Reads objects about one node, new from the apiserver with each call."""

    def __init__(self, cluster: Cluster, node: str) -> None:
        self._cluster = cluster
        self._node = node

    def node_metric(self) -> dict[str, Any]:
        """Return the NodeMetric, or an empty document while there is none."""
        text = self._cluster.run("get", "nodemetrics", self._node, "--ignore-not-found", "--output=json")
        found: dict[str, Any] = json.loads(text) if text.strip() else {}
        return found

    def report(self, since: str) -> dict[str, Any]:
        """Return the newest report. Raises NotYet when it is older than `since`."""
        status: dict[str, Any] = self.node_metric().get("status", {})
        if status.get("updateTime", "") < since:
            raise NotYet(f"the newest report is of {status.get('updateTime', 'never')}")
        return status

    def mid_status(self) -> dict[str, Any] | None:
        """Return the status annotation of the Mid resources, or None."""
        text = self._cluster.get("node", self._node)["metadata"].get("annotations", {}).get(STATUS_ANNOTATION)
        status: dict[str, Any] | None = json.loads(text) if text else None
        return status

    def mid(self) -> tuple[int, int]:
        """Return Mid CPU in milli-cores and Mid memory in bytes. Raises DemoStopped when the node has none."""
        allocatable = self._cluster.get("node", self._node)["status"]["allocatable"]
        if MID_CPU not in allocatable:
            raise DemoStopped(f"node {self._node} has no {MID_CPU} in status.allocatable")
        return checks.units(allocatable[MID_CPU]), checks.units(allocatable[MID_MEMORY])

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

    def used_percent(self) -> int:
        """Return the CPU usage of the newest report, in percent of the allocatable CPU."""
        used = checks.node_usage(self.node_metric().get("status", {}))
        return checks.percent(used.cpu_millis, self.allocatable().cpu_millis)

    def is_busy(self) -> bool:
        """Return whether the CPU usage is so high that the load threshold may block the demo's own pods."""
        return self.used_percent() >= checks.BUSY_PERCENT
