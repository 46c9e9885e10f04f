"""The link of one node is cut: Mid is withdrawn but for what runs there, and returns with the link."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from typing import Any

import pytest

from e2e.support import manager_faults, several_nodes, waiting, workloads
from e2e.support.cluster_client import ClusterClient
from e2e.support.installation import Suite
from e2e.support.names import SUITE_NAMESPACE
from tools.localcluster.providers.nodes import Nodes

pytestmark = pytest.mark.long
RECONNECTED_SECONDS = 120
"""Agents see a silent connection after 93 s at most (docs/operations/troubleshooting.md)."""


@pytest.fixture(scope="module")
def node(
    machines: Nodes, cluster_client: ClusterClient, suite: Suite, three: list[str], namespace: str
) -> Iterator[str]:
    """Return a node without the leading manager, a Mid pod that stays there, and a Deployment that does not."""
    leader = cluster_client.get("Pod", manager_faults.leading_pod(cluster_client), SUITE_NAMESPACE)
    name = next(other for other in three[1:] if other != leader["spec"]["nodeName"])
    stays = several_nodes.mid_pod("stays", suite.workload, nodes=[name])
    stays["spec"]["tolerations"] += [{"operator": "Exists", "effect": "NoExecute"}]
    cluster_client.create("Pod", stays, namespace)
    cluster_client.wait_running(namespace, "stays")
    leaves = workloads.pod("leaves", suite.workload, requests={"cpu": "50m"}, scheduler=workloads.SCHEDULER)
    several_nodes.deploy(cluster_client, namespace, leaves, len(three))
    several_nodes.until_places(cluster_client, namespace, "leaves", "before", lambda seen: seen == three)
    yield name
    machines.restore_link(name)
    cluster_client.delete("Deployment", "leaves", namespace)
    several_nodes.until_all_offer(cluster_client, three)


def _containers(cluster_client: ClusterClient, suite: Suite, namespace: str, node: str) -> list[tuple[str, int]]:
    """Return id and restarts of the containers of the Mid pod and of the agent."""
    pods = ("stays", namespace), (suite.agent_pod(node), SUITE_NAMESPACE)
    statuses: list[dict[str, Any]] = [cluster_client.get("Pod", *pod)["status"]["containerStatuses"][0] for pod in pods]
    return [(status["containerID"], status["restartCount"]) for status in statuses]


def test_mid_is_withdrawn_but_for_what_runs_there_and_returns_with_the_link(
    machines: Nodes, cluster_client: ClusterClient, suite: Suite, three: list[str], node: str, namespace: str
) -> None:
    before = several_nodes.until(cluster_client, node, "before", lambda seen: seen.offers)
    containers = _containers(cluster_client, suite, namespace, node)
    since = waiting.until("a prediction", lambda: cluster_client.node_metric(node)["status"]["prediction"]["since"])
    machines.cut_link(node)
    several_nodes.until_withdrawn(cluster_client, node, "link cut")
    several_nodes.until_places(
        cluster_client, namespace, "leaves", "after the cut", lambda seen: len(seen) == len(three) and node not in seen
    )
    for other in several_nodes.shown("meanwhile", cluster_client, [name for name in three if name != node]):
        assert other.offers

    machines.restore_link(node)
    restored = dt.datetime.now(dt.UTC)
    back = several_nodes.until(
        cluster_client, node, "link restored",
        lambda seen: seen.ready == "True" and seen.mid == before.mid and seen.offers,
        within_seconds=RECONNECTED_SECONDS,
    )  # fmt: skip
    print(f"{node}: a report {(dt.datetime.now(dt.UTC) - restored).total_seconds():.0f} s after the link")
    assert back.sampled > restored
    assert _containers(cluster_client, suite, namespace, node) == containers
    assert cluster_client.node_metric(node)["status"]["prediction"]["since"] == since, "it measured on"
