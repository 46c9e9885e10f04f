"""No agent reports for longer than degradeTimeMinutes, and the kubelet restarts: running Mid pods stay, no other fits.

The control: with `midFloor: none` the keys are removed at once, and the same restart ends the pod.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from e2e.support import agent_daemonset, slo_config, waiting, workloads
from e2e.support.cluster_client import ClusterClient
from e2e.support.installation import Suite
from tools.localcluster import running
from tools.localcluster.errors import ClusterProblem

CPU_MILLIS, MEMORY_MIB = 30, 48
DEGRADE_MINUTES = 1
CHECK_SECONDS = 30  # interval at which the manager checks a withdrawn node

pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module")
def survivor(cluster_client: ClusterClient, suite: Suite, node: str, namespace: str) -> Iterator[dict[str, Any]]:
    """Run a Mid pod on a node, then remove the agent."""
    slo_config.write(cluster_client, slo_config.changed(degradeTimeMinutes=DEGRADE_MINUTES))
    waiting.until("Mid on the node", lambda: cluster_client.mid(node), within_seconds=120)
    pod = workloads.mid_pod("survivor", suite.workload, cpu_millis=CPU_MILLIS, memory_mib=MEMORY_MIB, nodes=[node])
    cluster_client.create("Pod", pod, namespace)
    cluster_client.wait_running(namespace, "survivor")
    with agent_daemonset.away(suite):
        yield cluster_client.get("Pod", "survivor", namespace)
        slo_config.write(cluster_client, slo_config.BASE)
    waiting.until("reports again", lambda: cluster_client.mid_status(node), lambda seen: seen["reason"] == "Calculated")


def _restart_kubelet(cluster_client: ClusterClient, suite: Suite, node: str, namespace: str, witness: str) -> None:
    """Restart the kubelet, which admits every pod again; the start of another pod shows that it has finished."""
    try:
        running.provider().stop("kubelet")
    except ClusterProblem as impossible:
        pytest.skip(str(impossible))
    running.provider().start("kubelet")
    cluster_client.create("Pod", workloads.pod(witness, suite.workload, nodes=[node]), namespace)
    cluster_client.wait_running(namespace, witness)


def test_mid_is_exactly_the_request_of_the_pod(
    cluster_client: ClusterClient, node: str, survivor: dict[str, Any]
) -> None:
    left = CPU_MILLIS, MEMORY_MIB * workloads.MEBIBYTE
    within = DEGRADE_MINUTES * 60 + CHECK_SECONDS + 30
    waiting.until(
        "Mid is what is bound", lambda: cluster_client.mid(node), lambda seen: seen == left, within_seconds=within
    )


def test_the_pod_survives_a_restart_of_the_kubelet(
    cluster_client: ClusterClient, suite: Suite, node: str, namespace: str, survivor: dict[str, Any]
) -> None:
    _restart_kubelet(cluster_client, suite, node, namespace, "witness")
    after = cluster_client.get("Pod", "survivor", namespace)
    assert after["status"]["phase"] == "Running", after["status"]
    (container,) = after["status"]["containerStatuses"]
    assert container["restartCount"] == 0


def test_without_the_floor_the_same_restart_ends_it(
    cluster_client: ClusterClient, suite: Suite, node: str, namespace: str, survivor: dict[str, Any]
) -> None:
    slo_config.write(cluster_client, slo_config.changed(degradeTimeMinutes=DEGRADE_MINUTES, midFloor="none"))
    waiting.until("no Mid on the node", lambda: cluster_client.mid(node), lambda seen: seen is None)
    _restart_kubelet(cluster_client, suite, node, namespace, "second-witness")
    waiting.until(
        "it is refused by the new kubelet",
        lambda: cluster_client.pod_phase("survivor", namespace),
        lambda phase: phase.startswith("Failed"),
    )
