"""A running Mid pod is evicted from a node of a kubelet; the next one waits until the node was calm, and then runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import yaml

from e2e.support import chart_rendering, command_lines, slo_config, waiting, workloads
from e2e.support.cluster_client import ClusterClient
from e2e.support.installation import Suite
from e2e.support.lone_manager import ANNOTATION, EVICTION_TEMPLATE
from tools.localcluster import go_binaries
from tools.localcluster.access import Cluster

EVICTION = {"mode": "evict", "reports": 2, "nodeIntervalSeconds": 10, "readmitSeconds": 10}
NOTHING = slo_config.changed(midUnallocatedPercent=0, midReclaimRatioPercent=0, midEviction=EVICTION)
"""Nothing is reclaimable, and nothing unallocated is added: every Mid pod is too many."""


@pytest.fixture
def granted(cluster: Cluster, namespace: str) -> Iterator[None]:
    """Grant the right to evict in the namespace of the case, as the chart does by value."""
    values = {"manager": {"eviction": {"namespaces": [namespace]}}}
    text = yaml.safe_dump_all(chart_rendering.rendered(go_binaries.everything(), values, EVICTION_TEMPLATE))
    cluster.run("apply", "--filename=-", stdin=text)
    yield
    cluster.run("delete", "--ignore-not-found", "--filename=-", stdin=text)


def test_a_pod_leaves_and_its_successor_waits_for_the_node(
    cluster: Cluster,
    cluster_client: ClusterClient,
    suite: Suite,
    node: str,
    namespace: str,
    configure: Callable[[dict], None],
    granted: None,
) -> None:
    del granted
    waiting.until("Mid on the node", lambda: cluster_client.mid(node), within_seconds=120)

    def create(name: str) -> None:
        pod = workloads.mid_pod(name, suite.workload, cpu_millis=20, memory_mib=32, nodes=[node])
        cluster_client.create("Pod", pod, namespace)

    def closed() -> bool:
        return ANNOTATION in (cluster_client.get("Node", node)["metadata"].get("annotations") or {})

    create("leaves")
    cluster_client.wait_running(namespace, "leaves")
    configure(NOTHING)
    waiting.until(
        "the pod is gone", lambda: cluster_client.find("Pod", "leaves", namespace) is None, within_seconds=180
    )
    (event,) = cluster_client.events_of("leaves", namespace, "MidPodEvicted")
    assert event["message"].startswith(f"evicted from {node}: Mid pods request ")
    assert closed()
    words = ("koordctl", "explain", "node", node, "--kubeconfig", str(cluster.kubeconfig))
    assert "closed since" in command_lines.run(*words).text
    waiting.until("no Mid is published", lambda: cluster_client.mid(node), lambda seen: seen == (0, 0))
    create("successor")
    waiting.until(
        "it is refused", lambda: cluster_client.events_of("successor", namespace, "FailedScheduling"), within_seconds=60
    )
    assert closed()
    configure(slo_config.changed(midEviction=EVICTION))
    cluster_client.wait_running(namespace, "successor", within_seconds=180)
    assert not closed()
