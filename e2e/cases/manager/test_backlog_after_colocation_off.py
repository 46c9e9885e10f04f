"""Colocation is switched off under a backlog of Mid pods: running ones end in peace, and no waiting one starts.

Static mode offers the same amount however busy the machine is.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from e2e.support import slo_config, waiting, workloads
from e2e.support.cluster_client import ClusterClient
from e2e.support.installation import Suite

RUNNING, WAITING = 3, 4
LASTS_SECONDS = (60, 75, 90)
STATIC = {"midReclaimMode": "static", "midStaticCPUReservedPercent": 15, "midStaticMemoryReservedPercent": 5}
MEMORY_MIB = 16

pytestmark = [pytest.mark.long, pytest.mark.timeout(420)]


@pytest.fixture(scope="module")
def backlog(cluster_client: ClusterClient, suite: Suite, node: str, namespace: str) -> Iterator[list[str]]:
    """Fill the node with Mid pods that end, queue more of their size, switch colocation off; return the queue."""
    slo_config.write(cluster_client, slo_config.changed(**STATIC))
    cpu_millis, _ = waiting.until(
        "the share of static mode",
        lambda: cluster_client.mid(node),
        lambda seen: seen is not None and (cluster_client.mid_status(node) or {}).get("reason") == "Static",
        within_seconds=120,
    )
    for index, seconds in enumerate(LASTS_SECONDS):
        pod = workloads.mid_pod(
            f"running-{index}", suite.workload, cpu_millis=cpu_millis // RUNNING, memory_mib=MEMORY_MIB, nodes=[node]
        )
        pod["spec"]["activeDeadlineSeconds"] = seconds
        cluster_client.create("Pod", pod, namespace)
    for index in range(RUNNING):
        cluster_client.wait_running(namespace, f"running-{index}")
    names = [f"waiting-{index}" for index in range(WAITING)]
    for name in names:
        pod = workloads.mid_pod(
            name, suite.workload, cpu_millis=cpu_millis // RUNNING, memory_mib=MEMORY_MIB, nodes=[node]
        )
        cluster_client.create("Pod", pod, namespace)
    for name in names:
        waiting.until(
            f"{name} is refused",
            lambda name=name: cluster_client.events_of(name, namespace, "FailedScheduling"),
            within_seconds=60,
        )
    slo_config.write(cluster_client, slo_config.changed(enable=False, **STATIC))
    yield names
    slo_config.write(cluster_client, slo_config.BASE)


def test_running_mid_pods_end_by_themselves_and_the_keys_go_with_them(
    cluster_client: ClusterClient, node: str, namespace: str, backlog: list[str]
) -> None:
    waiting.until(
        "the withdrawal",
        lambda: cluster_client.mid_status(node),
        lambda seen: seen is not None and seen["reason"] == "ColocationDisabled" and "floorBefore" in seen,
        within_seconds=30,
    )
    waiting.until("no Mid on it", lambda: cluster_client.mid(node), lambda seen: seen is None, within_seconds=200)
    for index in range(RUNNING):
        pod = cluster_client.get("Pod", f"running-{index}", namespace)
        assert pod["status"]["reason"] == "DeadlineExceeded", pod["status"]


def test_no_waiting_pod_was_started(cluster_client: ClusterClient, namespace: str, backlog: list[str]) -> None:
    for name in backlog:
        pod = cluster_client.get("Pod", name, namespace)
        assert "nodeName" not in pod["spec"], f"{name} was bound after colocation was switched off"
        assert pod["status"]["phase"] == "Pending"
