"""The usage of a pod in the NodeMetric equals the kernel's own accounting.

The load alternates between two levels, so that a report of a wrong window would differ. The kubelet's Summary API is
a third source.
"""

from __future__ import annotations

import datetime as dt
import json
import threading
import time
from typing import Any, NamedTuple

import pytest

from e2e.support import workloads
from e2e.support.cgroup_accounting import CgroupWitness
from e2e.support.cluster_client import ClusterClient, cores_or_bytes, moment
from e2e.support.installation import Suite
from e2e.support.slo_config import BASE
from tools.localcluster.access import Cluster

POD = "known-load"
MEMORY_MIB = 128
WINDOW_SECONDS = BASE["metricAggregateDurationSeconds"]
SETTLING_SECONDS = 8  # the container starts, takes its memory, and the witness has begun to read


class Measured(NamedTuple):
    """Usage of the pod over the same window, from three sources."""

    reported: Any  # podUsage of the report: (cores, bytes)
    accounted: tuple[float, float]  # its cgroup's own account: cores, bytes
    kubelet: tuple[float, float]  # the Summary API's


class SummaryWitness:
    """Reads the kubelet's Summary API for one pod every few seconds until it is closed."""

    def __init__(self, cluster: Cluster, node: str, namespace: str) -> None:
        self._read = lambda: json.loads(cluster.run("get", "--raw", f"/api/v1/nodes/{node}/proxy/stats/summary"))
        self._namespace = namespace
        self.accounts: dict[float, tuple[float, int]] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._read_on, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._stop.set()
        self._thread.join()

    def _read_on(self) -> None:
        while not self._stop.wait(3.0):
            for pod in self._read()["pods"]:
                if pod["podRef"]["namespace"] == self._namespace and "usageCoreNanoSeconds" in pod.get("cpu", {}):
                    at = moment(pod["cpu"]["time"]).timestamp()
                    self.accounts[at] = (pod["cpu"]["usageCoreNanoSeconds"] / 1e9, pod["memory"]["rssBytes"])

    def usage_around(self, start_seconds: float, end_seconds: float) -> tuple[float, float]:
        """Return the mean cores between the samples nearest to both times, and the memory of the last sample."""
        first, last = (min(self.accounts, key=lambda at: abs(at - wanted)) for wanted in (start_seconds, end_seconds))
        (used_before, _), (used_after, memory) = self.accounts[first], self.accounts[last]
        return (used_after - used_before) / (last - first), memory


@pytest.fixture(scope="module")
def measured(
    cluster: Cluster, suite: Suite, cluster_client: ClusterClient, node: str, namespace: str, shell_in_node: None
) -> Measured:
    """Let the pod run for a whole window of a report."""
    arguments = workloads.load(cores="0.15,0.45", phase_seconds=3, memory_mib=MEMORY_MIB)
    pod = workloads.pod(POD, suite.workload, *arguments, requests={"cpu": "100m", "memory": "64Mi"}, nodes=[node])
    cluster_client.create("Pod", pod, namespace)
    cluster_client.wait_running(namespace, POD)
    own = CgroupWitness(cluster_client.get("Pod", POD, namespace))
    kubelet = SummaryWitness(cluster, node, namespace)
    whole_window = dt.datetime.now(dt.UTC) + dt.timedelta(seconds=WINDOW_SECONDS + SETTLING_SECONDS)
    status = cluster_client.wait_report(node, whole_window, within_seconds=WINDOW_SECONDS + 75)["status"]
    end = moment(status["updateTime"]).timestamp() + 0.5  # the wire cuts the moment of the sample to whole seconds
    start = end - WINDOW_SECONDS
    time.sleep(2)  # both witnesses read a little beyond the end
    own.close()
    kubelet.close()
    (reported,) = [each["podUsage"]["resources"] for each in status["podsMetric"] if each["namespace"] == namespace]
    accounted = own.cpu_seconds_between(start, end) / WINDOW_SECONDS, own.memory_bytes_between(start, end)
    return Measured(cores_or_bytes(reported), accounted, kubelet.usage_around(start, end))


def test_reported_cpu_equals_the_cgroup_accounting(measured: Measured) -> None:
    reported, accounted = float(measured.reported[0]), measured.accounted[0]
    assert accounted > 0.2, "the load was not what it should be"
    assert abs(reported - accounted) <= max(0.05 * accounted, 0.02)


def test_the_kubelet_agrees_on_cpu(measured: Measured) -> None:
    reported, kubelet = float(measured.reported[0]), measured.kubelet[0]
    assert abs(reported - kubelet) <= max(0.05 * kubelet, 0.02)


def test_reported_memory_equals_the_anonymous_memory(measured: Measured) -> None:
    reported, accounted = float(measured.reported[1]), measured.accounted[1]
    assert accounted > MEMORY_MIB * workloads.MEBIBYTE
    assert abs(reported - accounted) <= 0.05 * accounted


def test_the_kubelet_agrees_on_memory(measured: Measured) -> None:
    reported, kubelet = float(measured.reported[1]), measured.kubelet[1]
    assert abs(reported - kubelet) <= 0.05 * kubelet


def test_the_printer_columns_of_nodemetrics_are_filled(
    cluster: Cluster, suite: Suite, cluster_client: ClusterClient, node: str
) -> None:
    cluster_client.wait_report(node, dt.datetime.now(dt.UTC) - dt.timedelta(seconds=60))
    head, line = cluster.run("get", "nodemetrics", node).splitlines()
    assert len(head) < 120
    shown = dict(zip(head.split("  "), line.split("  "), strict=False))
    assert line.startswith(node), shown
    assert "<none>" not in line, f"{head}\n{line}"
