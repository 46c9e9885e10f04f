"""Three real nodes with the suite, for what one node cannot show. Only the provider `nodes` has them."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from e2e.support import manager_faults, mid_suppression, node_thresholds, several_nodes, slo_config, workloads
from e2e.support.cluster_client import ClusterClient
from e2e.support.installation import Suite
from tools.localcluster import running
from tools.localcluster.access import Cluster
from tools.localcluster.providers.nodes import Nodes

COUNT = 3
_HOST_NAME = "kubernetes.io/hostname"


@pytest.fixture(scope="session")
def machines(cluster: Cluster) -> Nodes:
    """Return the provider, with at least three nodes up."""
    provider = running.provider()
    if not isinstance(provider, Nodes):
        pytest.skip("needs three machines that are nodes: --provider nodes")
    provider.up(max(COUNT, len(cluster.real_nodes())))
    return provider


@pytest.fixture(scope="session")
def suite(machines: Nodes, suite: Suite, cluster: Cluster, cluster_client: ClusterClient) -> Iterator[Suite]:
    """Keep the scheduler on the first node, which no case harms, and the managers on the others; permit suppression."""
    names = cluster.real_nodes()
    for name in names:
        node_thresholds.set_threshold(cluster_client, name, node_thresholds.NEVER_HOT)
    suite.install(
        mid_suppression.PERMITTED,
        f"--set-json=scheduler.nodeSelector={json.dumps({_HOST_NAME: names[0]})}",
        f"--set-json=manager.affinity={json.dumps(_one_on_each_node_but(names[0]))}",
        '--set-json=manager.strategy.rollingUpdate={"maxSurge": 0}',  # there is no node for a third replica
    )
    slo_config.write(cluster_client, several_nodes.CONFIGURATION)
    several_nodes.until_all_offer(cluster_client, names)
    yield suite
    slo_config.write(cluster_client, slo_config.BASE)
    suite.install()


def _one_on_each_node_but(first: str) -> dict[str, object]:
    """Return an affinity."""
    others = {"matchExpressions": [{"key": _HOST_NAME, "operator": "NotIn", "values": [first]}]}
    labels = {"matchLabels": {"app.kubernetes.io/name": manager_faults.MANAGER}}
    apart = {"topologyKey": _HOST_NAME, "labelSelector": labels}
    return {
        "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [others]}},
        "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [apart]},
    }


@pytest.fixture(scope="session")
def three(suite: Suite, cluster: Cluster) -> list[str]:
    """Return the names of three nodes. The first one has the scheduler."""
    return cluster.real_nodes()[:COUNT]


@pytest.fixture(scope="module")
def apps(cluster_client: ClusterClient, suite: Suite, three: list[str], namespace: str) -> Iterator[list[str]]:
    """Run a Prod and a Mid pod on each node; return the names of both Deployments."""
    prod = workloads.pod("web", suite.workload, requests={"cpu": "50m"}, scheduler=workloads.SCHEDULER)
    mid = several_nodes.mid_pod("batch", suite.workload)
    names = [several_nodes.deploy(cluster_client, namespace, pod, len(three)) for pod in (prod, mid)]
    for name in names:
        several_nodes.until_places(cluster_client, namespace, name, "before", lambda seen: seen == three)
    yield names
    for name in names:
        cluster_client.delete("Deployment", name, namespace)
