"""containerd of one node uses another cgroup driver than its kubelet: the report names the group and the cure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from e2e.support import several_nodes, waiting, workloads
from e2e.support.cluster_client import ClusterClient
from e2e.support.installation import Suite
from tools.localcluster.providers.nodes import Nodes

pytestmark = pytest.mark.long
POD = "stray"
_SWITCH = """
sed -i 's/SystemdCgroup = {before}/SystemdCgroup = {after}/' /etc/containerd/config.toml
systemctl restart containerd
"""


@pytest.fixture
def node(machines: Nodes, cluster_client: ClusterClient, three: list[str], namespace: str) -> Iterator[str]:
    """Return a node whose containerd uses cgroupfs from now on."""
    name = three[2]
    several_nodes.shown("before", cluster_client, [name])
    machines.shell(name, _SWITCH.format(before="true", after="false"))
    yield name
    cluster_client.delete("Pod", POD, namespace, grace_seconds=1)
    waiting.until("the pod is gone", lambda: cluster_client.find("Pod", POD, namespace) is None)
    machines.shell(name, _SWITCH.format(before="false", after="true"))
    waiting.until("nothing is degraded", lambda: _degraded(cluster_client, name)[0] == "False", within_seconds=90)
    several_nodes.shown("after", cluster_client, [name])


def _degraded(cluster_client: ClusterClient, node: str) -> tuple[str, str]:
    """Return status and message of the condition SourceDegraded."""
    conditions: list[dict[str, Any]] = cluster_client.node_metric(node)["status"]["conditions"]
    (degraded,) = [condition for condition in conditions if condition["type"] == "SourceDegraded"]
    return degraded["status"], degraded["message"]


def test_the_report_names_the_pod_and_the_cure_and_the_node_keeps_its_mid(
    cluster_client: ClusterClient, suite: Suite, three: list[str], node: str, namespace: str
) -> None:
    pod = workloads.pod(POD, suite.workload, *workloads.load(cores="0.1"), requests={"cpu": "100m"}, nodes=[node])
    cluster_client.create("Pod", pod, namespace)
    cluster_client.wait_running(namespace, POD)
    _, message = waiting.until(
        "the source is degraded", lambda: _degraded(cluster_client, node), lambda seen: seen[0] == "True",
        within_seconds=120,
    )  # fmt: skip
    print(f"{node}: {message}")
    uid = cluster_client.get("Pod", POD, namespace)["metadata"]["uid"].replace("-", "_")
    for word in (f"pod{uid}.slice:cri-containerd:", "SystemdCgroup = true"):
        assert word in message
    assert several_nodes.shown("meanwhile", cluster_client, [node])[0].offers
    assert [_degraded(cluster_client, other)[0] for other in three if other != node] == ["False", "False"]
