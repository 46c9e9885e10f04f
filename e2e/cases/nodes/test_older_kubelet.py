"""One node has a kubelet of an older minor version, as between two upgrades: it is measured and runs Mid pods."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from e2e.support import cgroup_accounting, several_nodes, waiting
from e2e.support.cluster_client import ClusterClient
from e2e.support.installation import Suite
from e2e.support.several_nodes import LIMITED
from tools.localcluster import go_binaries
from tools.localcluster.providers.nodes import Nodes

pytestmark = pytest.mark.long
OLDER = "1.34"


@pytest.fixture(scope="module")
def node(machines: Nodes, cluster_client: ClusterClient, three: list[str]) -> Iterator[str]:
    if go_binaries.version().startswith(f"v{OLDER}."):
        pytest.skip(f"{OLDER} is the oldest version that is built here; want KUBERNETES_VERSION=1.36 or newer")
    several_nodes.shown("before", cluster_client, three)
    several_nodes.replace(machines, cluster_client, three[2], OLDER)
    yield three[2]
    several_nodes.replace(machines, cluster_client, three[2])
    several_nodes.until_all_offer(cluster_client, three)


def test_it_is_measured_offers_mid_and_limits_a_mid_pod(
    cluster_client: ClusterClient, suite: Suite, three: list[str], node: str, namespace: str
) -> None:
    older = several_nodes.until(cluster_client, node, "replaced", lambda seen: seen.offers)
    newer = several_nodes.shown("beside it", cluster_client, three[:2])
    assert older.kubelet.startswith(f"v{OLDER}.")
    assert not any(other.kubelet.startswith(f"v{OLDER}.") for other in newer)
    assert older.mid == newer[0].mid

    several_nodes.run_limited_mid_pod(cluster_client, namespace, suite.workload, node, cores="0.1")
    pod = cluster_client.get("Pod", LIMITED, namespace)
    assert cgroup_accounting.quota(pod).millis == several_nodes.LIMITED_MILLIS

    def usage() -> dict[str, str]:
        pods = cluster_client.node_metric(node)["status"]["podsMetric"]
        return dict({pod["name"]: pod["podUsage"]["resources"] for pod in pods}[LIMITED])

    print(f"{node}: {LIMITED} uses {waiting.until('its usage in the report', usage, within_seconds=90)}")
