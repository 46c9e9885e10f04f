"""Colocation is switched off while a Mid pod runs: the pod stays, even over a kubelet restart; no other fits."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from e2e.support import slo_config, waiting, workloads
from e2e.support.cluster_client import ClusterClient
from e2e.support.installation import Suite
from e2e.support.names import MID_CPU
from tools.localcluster import running
from tools.localcluster.errors import ClusterProblem

CPU_MILLIS, MEMORY_MIB = 30, 48


@pytest.fixture(scope="module")
def survivor(cluster_client: ClusterClient, suite: Suite, node: str, namespace: str) -> Iterator[dict[str, Any]]:
    """Return a running Mid pod, after colocation was switched off."""
    waiting.until("Mid on the node", lambda: cluster_client.mid(node), within_seconds=120)
    pod = workloads.mid_pod("survivor", suite.workload, cpu_millis=CPU_MILLIS, memory_mib=MEMORY_MIB, nodes=[node])
    cluster_client.create("Pod", pod, namespace)
    cluster_client.wait_running(namespace, "survivor")
    waiting.until(
        "its start in its status",
        lambda: cluster_client.get("Pod", "survivor", namespace)["status"]["containerStatuses"][0]["state"].get(
            "running"
        ),
    )
    before = cluster_client.get("Pod", "survivor", namespace)
    slo_config.write(cluster_client, slo_config.changed(enable=False))
    yield before
    slo_config.write(cluster_client, slo_config.BASE)


def test_mid_is_exactly_the_request_of_the_pod(
    cluster_client: ClusterClient, node: str, survivor: dict[str, Any]
) -> None:
    left = CPU_MILLIS, MEMORY_MIB * workloads.MEBIBYTE
    waiting.until("Mid is what is bound", lambda: cluster_client.mid(node), lambda seen: seen == left)


def test_the_pod_survives_a_restart_of_the_kubelet(
    cluster_client: ClusterClient, node: str, namespace: str, survivor: dict[str, Any]
) -> None:
    try:
        running.provider().stop("kubelet")
    except ClusterProblem as impossible:
        pytest.skip(str(impossible))
    running.provider().start("kubelet")
    waiting.until("the node is Ready", lambda: _conditions(cluster_client, node), lambda seen: seen["Ready"] == "True")
    waiting.until(
        "no taint keeps pods away",
        lambda: cluster_client.get("Node", node)["spec"].get("taints"),
        lambda seen: not seen,
    )
    # The new kubelet admits every pod again; the start of a second pod shows that it has finished.
    witness = workloads.pod("witness", survivor["spec"]["containers"][0]["image"], nodes=[node])
    cluster_client.create("Pod", witness, namespace)
    cluster_client.wait_running(namespace, "witness")
    after = cluster_client.get("Pod", "survivor", namespace)
    assert after["status"]["phase"] == "Running", after["status"]
    assert after["metadata"]["uid"] == survivor["metadata"]["uid"]
    assert _containers(after) == _containers(survivor)


def _conditions(cluster_client: ClusterClient, node: str) -> dict[str, str]:
    return {each["type"]: each["status"] for each in cluster_client.get("Node", node)["status"]["conditions"]}


def _containers(pod: dict[str, Any]) -> list[tuple[str, int]]:
    return [(each["containerID"], each["restartCount"]) for each in pod["status"]["containerStatuses"]]


def test_no_new_mid_pod_fits(
    cluster_client: ClusterClient,
    suite: Suite,
    node: str,
    namespace: str,
    survivor: dict[str, Any],
) -> None:
    cluster_client.create(
        "Pod", workloads.mid_pod("late", suite.workload, cpu_millis=1, memory_mib=1, nodes=[node]), namespace
    )
    refusals = waiting.until("it is refused", lambda: cluster_client.events_of("late", namespace, "FailedScheduling"))
    assert MID_CPU in refusals[-1]["message"]
    assert cluster_client.pod_phase("late", namespace) == "Pending"
    cluster_client.delete("Pod", "late", namespace)


def test_the_keys_disappear_with_the_last_mid_pod(
    cluster_client: ClusterClient,
    node: str,
    namespace: str,
    survivor: dict[str, Any],
) -> None:
    cluster_client.delete("Pod", "survivor", namespace)
    waiting.until("no Mid on the node", lambda: cluster_client.mid(node), lambda seen: seen is None, within_seconds=90)
    assert cluster_client.mid_status(node) is None
