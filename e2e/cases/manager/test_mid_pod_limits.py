"""A Mid pod with limits is limited by the kernel from its first process on, also after a restart, and counts as Mid."""

from __future__ import annotations

from typing import Any

import pytest

from api_types.mid_pods import template
from e2e.support import waiting, workloads
from e2e.support.cluster_client import ClusterClient
from e2e.support.installation import Suite
from tools.localcluster.access import Cluster

CPU_MILLIS, MEMORY_MIB = 150, 48
_SHOW = """
import os, pathlib, time
root = pathlib.Path("/sys/fs/cgroup")
v2 = (root / "cgroup.controllers").exists()
v1_files = ["cpu/cpu.cfs_quota_us", "cpu/cpu.cfs_period_us", "memory/memory.limit_in_bytes"]
files = ["cpu.max", "memory.max"] if v2 else v1_files
words = " ".join((root / name).read_text().strip() for name in files).split()
print(os.getpid(), *words, flush=True)
time.sleep(5)
"""
"""The first process of the container prints its own limits, and ends."""


@pytest.fixture(scope="module")
def limited(cluster_client: ClusterClient, suite: Suite, node: str) -> dict[str, Any]:
    """Return a Mid pod as the rules leave it, of an author who wrote plain resources."""
    waiting.until("Mid on the node", lambda: cluster_client.mid(node), within_seconds=120)
    made = workloads.mid_pod("limited", suite.workload, cpu_millis=CPU_MILLIS, memory_mib=MEMORY_MIB, nodes=[node])
    (container,) = made["spec"]["containers"]
    plain = {"cpu": f"{CPU_MILLIS}m", "memory": f"{MEMORY_MIB}Mi"}
    container |= {"resources": {"requests": plain, "limits": plain}, "command": ["python3", "-c", _SHOW], "args": []}
    return template.limited(made)


def test_quota_and_memory_limit_hold_from_the_first_process_on_and_after_a_restart(
    cluster: Cluster, cluster_client: ClusterClient, node: str, namespace: str, limited: dict[str, Any]
) -> None:
    cluster_client.create("Pod", limited, namespace)
    cluster_client.wait_running(namespace, "limited")

    def pod() -> dict[str, Any]:
        return dict(cluster_client.get("Pod", "limited", namespace))

    assert pod()["status"]["qosClass"] == "Burstable"
    waiting.until(
        "a restart",
        lambda: pod()["status"]["containerStatuses"][0],
        lambda status: status["restartCount"] >= 1 and "running" in status["state"],
        within_seconds=90,
    )
    where = ("logs", "limited", "--namespace", namespace)
    expected = ["1", str(CPU_MILLIS * 100), "100000", str(MEMORY_MIB * 2**20)]
    for words in ((*where, "--previous"), where):
        shown = waiting.until("its output", lambda words=words: cluster.run(*words), within_seconds=30)
        assert shown.split() == expected


def test_the_agent_counts_it_as_mid_and_not_as_prod(
    cluster_client: ClusterClient, node: str, namespace: str, limited: dict[str, Any]
) -> None:
    def reported() -> list[str]:
        listed = cluster_client.node_metric(node)["status"].get("podsMetric") or []
        return [each["priority"] for each in listed if each["namespace"] == namespace]

    waiting.until("the pod in the report", reported, lambda seen: seen == ["koord-mid"], within_seconds=90)
