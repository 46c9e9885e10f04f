"""CPUs that the kubelet's static CPU manager gives to one Prod pod alone are charged to it, used or not."""

from __future__ import annotations

import pytest

from e2e.support import control_groups, kubelet_settings, waiting, workloads
from e2e.support.cluster_client import ClusterClient, cpu_millis
from e2e.support.installation import Suite
from tools.localcluster.access import Cluster

POD, CORES = "alone", 1
STATIC = {"cpuManagerPolicy": "static", "systemReserved": {"cpu": "100m"}}
USED_MILLIS = 150
"""Most that the pod uses of its CPU, which it does not need."""

pytestmark = pytest.mark.timeout(600)


def _charged_millis(cluster_client: ClusterClient, node: str) -> int:
    """Return what a report charges beside the history of the pods. Raises LookupError while it charges requests."""
    prediction = cluster_client.node_metric(node)["status"]["prediction"]
    if prediction["coldPods"]:
        raise LookupError(f"{prediction['coldPods']} pods without history, whose requests are charged")
    return cpu_millis(prediction["prod"]["coldRequests"]["cpu"])


def _cpus(cluster_client: ClusterClient, namespace: str) -> set[str]:
    files = control_groups.of_pod(cluster_client.get("Pod", POD, namespace)).files("*/cpuset.cpus.effective")
    return {line for lines in files.values() for line in lines}


def _start(cluster_client: ClusterClient, suite: Suite, node: str, namespace: str) -> None:
    size = {"cpu": str(CORES), "memory": "64Mi"}
    pod = workloads.pod(POD, suite.workload, *workloads.load(), requests=size, limits=size, nodes=[node])
    cluster_client.create("Pod", pod, namespace)
    cluster_client.wait_running(namespace, POD)


def _end(cluster_client: ClusterClient, namespace: str) -> None:
    cluster_client.delete("Pod", POD, namespace, grace_seconds=1)
    waiting.until("the pod is gone", lambda: cluster_client.find("Pod", POD, namespace) is None)


def test_a_cpu_of_its_own_is_charged_to_a_pod(
    cluster: Cluster, suite: Suite, cluster_client: ClusterClient, node: str, namespace: str
) -> None:
    if cluster.provider != "nodes":
        pytest.skip("needs a node whose kubelet may be changed: --provider nodes")

    def charged(what: str, least: int, most: int) -> int:
        return waiting.until(
            what, lambda: _charged_millis(cluster_client, node), lambda millis: least <= millis <= most,
            within_seconds=180,
        )  # fmt: skip

    _start(cluster_client, suite, node, namespace)
    before, shared = charged("nothing is charged", 0, 0), _cpus(cluster_client, namespace)
    _end(cluster_client, namespace)
    with kubelet_settings.changed(node, **STATIC):
        waiting.until(
            "the kubelet reserves CPU", lambda: cluster_client.get("Node", node)["status"],
            lambda seen: cpu_millis(seen["allocatable"]["cpu"]) < cpu_millis(seen["capacity"]["cpu"]),
            within_seconds=120,
        )  # fmt: skip
        _start(cluster_client, suite, node, namespace)
        after = charged("the CPU is charged", 1000 * CORES - USED_MILLIS, 1000 * CORES)
        exclusive = _cpus(cluster_client, namespace)
        _end(cluster_client, namespace)
    print(f"on CPUs {shared}, charged beside its history: {before}m; then on {exclusive}: {after}m")
    assert shared == {"0-1"}
    assert "1" in exclusive or "0" in exclusive
