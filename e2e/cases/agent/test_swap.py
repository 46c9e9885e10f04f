"""What the kernel has swapped out of a pod is memory that it uses, on a node whose kubelet permits swap."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator

import pytest

from e2e.support import control_groups, kubelet_settings, waiting, workloads
from e2e.support.cluster_client import ClusterClient, cores_or_bytes
from e2e.support.installation import Suite
from e2e.support.slo_config import BASE
from e2e.support.workloads import MEBIBYTE
from tools.localcluster import running
from tools.localcluster.access import Cluster

POD, HELD_MIB, SWAPPED_MIB = "swapped", 128, 48
LIMITED_SWAP = {"failSwapOn": False, "memorySwap": {"swapBehavior": "LimitedSwap"}}
"""A pod may swap out as much of the swap as it requests of the node's memory."""
_ON = """
dd if=/dev/zero of=/var/lib/swap bs=1M count=512 status=none
chmod 600 /var/lib/swap
mkswap /var/lib/swap
swapon /var/lib/swap
"""
_OFF = """
swapoff /var/lib/swap
rm /var/lib/swap
"""
_RECLAIM = """
find /sys/fs/cgroup -type d -name '*pod{uid}.slice' | while read -r group; do
    echo "{mib}M swappiness=200" >"$group/memory.reclaim" || true
done
"""

pytestmark = pytest.mark.timeout(600)


@pytest.fixture
def swap(cluster: Cluster, node: str) -> Iterator[None]:
    """Give the node a swap file that pods may use."""
    if cluster.provider != "nodes":
        pytest.skip("needs a node with a swap of its own: --provider nodes")
    running.provider().shell(node, _ON)
    try:
        with kubelet_settings.changed(node, **LIMITED_SWAP):
            yield
    finally:
        running.provider().shell(node, _OFF)


@pytest.mark.usefixtures("swap")
def test_what_is_swapped_out_is_used(suite: Suite, cluster_client: ClusterClient, node: str, namespace: str) -> None:
    def reported() -> float:
        pods = cluster_client.node_metric(node)["status"]["podsMetric"]
        used = {pod["name"]: pod["podUsage"]["resources"] for pod in pods}[POD]
        return float(cores_or_bytes(used)[1]) / MEBIBYTE

    def swapped() -> float:
        (lines,) = control_groups.of_pod(pod).files("memory.swap.current").values()
        return int(lines[0]) / MEBIBYTE

    arguments = workloads.load(memory_mib=HELD_MIB)
    made = workloads.pod(POD, suite.workload, *arguments, requests={"cpu": "50m", "memory": "512Mi"}, nodes=[node])
    cluster_client.create("Pod", made, namespace)
    cluster_client.wait_running(namespace, POD)
    pod = cluster_client.get("Pod", POD, namespace)
    before = waiting.until("a report", reported, lambda mib: mib >= HELD_MIB, within_seconds=120)
    uid = pod["metadata"]["uid"].replace("-", "_")
    running.provider().shell(node, _RECLAIM.format(uid=uid, mib=SWAPPED_MIB))
    out = waiting.until("memory is swapped out", swapped, lambda mib: mib >= SWAPPED_MIB / 2)
    window = dt.timedelta(seconds=BASE["metricAggregateDurationSeconds"] + 5)
    cluster_client.wait_report(node, dt.datetime.now(dt.UTC) + window, within_seconds=150)
    after = reported()
    print(f"{before:.0f} MiB before; {out:.0f} MiB are swapped out, {swapped():.0f} MiB later; {after:.0f} MiB then")
    assert swapped() >= SWAPPED_MIB / 2
    assert after == pytest.approx(before, abs=8), "without what is swapped out it would be a third less"
