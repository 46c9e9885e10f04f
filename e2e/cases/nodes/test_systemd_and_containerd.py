"""systemd reloads and containerd restarts where limits of Mid pods are lowered: all of it goes on."""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Iterator
from typing import Any

import pytest

from e2e.support import cgroup_accounting, several_nodes, slo_config, waiting, workloads
from e2e.support.cluster_client import ClusterClient, cpu_millis
from e2e.support.installation import Suite
from e2e.support.several_nodes import LIMITED, LIMITED_MILLIS
from tools.localcluster.providers.nodes import Nodes

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def node(cluster_client: ClusterClient, suite: Suite, three: list[str], namespace: str) -> Iterator[str]:
    """Return a node with a Mid pod whose limit is lowered: any usage is above a threshold of one percent."""
    name = three[1]
    several_nodes.run_limited_mid_pod(cluster_client, namespace, suite.workload, name, cores="0.02")
    print(f"before: {_limits(cluster_client, namespace)}")
    slo_config.write(cluster_client, {**several_nodes.CONFIGURATION, "midSuppressThresholdPercent": 1})
    waiting.until(
        "the limit is lowered", lambda: _limits(cluster_client, namespace),
        lambda seen: len(set(seen)) == 1 and seen[0] < LIMITED_MILLIS,
    )  # fmt: skip
    yield name
    slo_config.write(cluster_client, several_nodes.CONFIGURATION)


def _pod(cluster_client: ClusterClient, namespace: str) -> dict[str, Any]:
    return dict(cluster_client.get("Pod", LIMITED, namespace))


def _limits(cluster_client: ClusterClient, namespace: str) -> tuple[int, int]:
    """Return the CPU limit of the Mid pod in the API server, and in the kernel of its node."""
    pod = _pod(cluster_client, namespace)
    limit = cpu_millis(pod["spec"]["containers"][0]["resources"]["limits"]["cpu"])
    return limit, cgroup_accounting.quota(pod).millis


def test_a_lowered_limit_survives_a_reload_of_systemd(
    machines: Nodes, cluster_client: ClusterClient, namespace: str, node: str
) -> None:
    pod = _pod(cluster_client, namespace)
    before = _limits(cluster_client, namespace)
    seen = []
    for _ in range(5):
        machines.shell(node, "systemctl daemon-reload")
        seen.append(cgroup_accounting.quota(pod).millis)
        time.sleep(1)
    print(f"{node}: limit and quota {before} before, quota {seen} after each of five reloads")
    assert before[1] < LIMITED_MILLIS
    assert set(seen) == {before[1]}


def test_a_restart_of_containerd_restarts_no_pod_and_reports_go_on(
    machines: Nodes, cluster_client: ClusterClient, suite: Suite, three: list[str], namespace: str, node: str
) -> None:
    before = several_nodes.until(cluster_client, node, "before", lambda seen: seen.offers)
    limits = _limits(cluster_client, namespace)
    containers = _pod(cluster_client, namespace)["status"]["containerStatuses"]
    machines.shell(node, "systemctl stop containerd")
    try:
        stopped = dt.datetime.now(dt.UTC)
        meanwhile = several_nodes.until(cluster_client, node, "without containerd", lambda seen: seen.sampled > stopped)
        assert meanwhile.mid == before.mid
    finally:
        machines.shell(node, "systemctl start containerd")
    cluster_client.create("Pod", workloads.pod("newcomer", suite.workload, nodes=[node]), namespace)
    cluster_client.wait_running(namespace, "newcomer", within_seconds=150)
    started = dt.datetime.now(dt.UTC)
    several_nodes.until(cluster_client, node, "after", lambda seen: seen.sampled > started and seen.offers)
    after = _pod(cluster_client, namespace)["status"]["containerStatuses"]
    assert [container["containerID"] for container in after] == [container["containerID"] for container in containers]
    assert _limits(cluster_client, namespace) == limits
    reported = {pod["name"] for pod in cluster_client.node_metric(node)["status"]["podsMetric"]}
    assert {LIMITED, "newcomer"} <= reported
