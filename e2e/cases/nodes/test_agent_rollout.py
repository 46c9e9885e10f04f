"""A new agent for every node: one node at a time is without, and none loses its Mid meanwhile."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest

from e2e.support import agent_daemonset, several_nodes, slo_config, waiting
from e2e.support.cluster_client import ClusterClient
from e2e.support.installation import Suite
from e2e.support.names import SUITE_NAMESPACE
from e2e.support.several_nodes import NodeState

pytestmark = pytest.mark.long
OLDEST_SECONDS = 90
"""Greatest age of a report: its interval, and the time that an agent needs to start and to report."""


def _all_agents(cluster_client: ClusterClient, nodes: list[str]) -> dict[str, str]:
    return waiting.until("an agent is ready on every node", lambda: _agents(cluster_client), set(nodes).issubset)


def _agents(cluster_client: ClusterClient) -> dict[str, str]:
    """Return the pod of the ready agent of each node that has one."""
    agents = {}
    for pod in cluster_client.list("Pod", SUITE_NAMESPACE, label_selector="app.kubernetes.io/name=koordlet"):
        conditions = {condition["type"]: condition["status"] for condition in pod["status"].get("conditions", ())}
        if conditions.get("Ready") == "True" and "deletionTimestamp" not in pod["metadata"]:
            agents[pod["spec"]["nodeName"]] = pod["metadata"]["name"]
    return agents


class Watch:
    """States of all nodes, and nodes with a ready agent, several times a second until it is closed."""

    def __init__(self, cluster_client: ClusterClient, nodes: list[str]) -> None:
        self.states: list[NodeState] = []
        self.with_agent: list[set[str]] = []
        self._cluster_client, self._nodes = cluster_client, nodes
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._read_on, daemon=True)
        self._thread.start()

    def _read_on(self) -> None:
        while not self._closed.wait(0.3):
            self.with_agent.append(set(_agents(self._cluster_client)))
            self.states += [several_nodes.read(self._cluster_client, name) for name in self._nodes]

    def close(self) -> None:
        self._closed.set()
        self._thread.join()


@pytest.fixture
def patient(cluster_client: ClusterClient) -> Iterator[None]:
    """Let a report be two minutes old: it may be due just when the agent ends."""
    slo_config.write(cluster_client, {**several_nodes.CONFIGURATION, "degradeTimeMinutes": 2})
    yield
    slo_config.write(cluster_client, several_nodes.CONFIGURATION)


@pytest.mark.usefixtures("patient")
def test_one_node_at_a_time_is_without_an_agent_and_every_node_keeps_its_mid(
    cluster_client: ClusterClient, suite: Suite, three: list[str]
) -> None:
    before = several_nodes.shown("before", cluster_client, three)
    old = _all_agents(cluster_client, three)
    watch = Watch(cluster_client, three)
    began = time.monotonic()
    requested = agent_daemonset.restart(suite)
    print(f"all agents replaced within {time.monotonic() - began:.0f} s")
    for name in three:
        several_nodes.until(
            cluster_client, name, "a report of the new agent",
            lambda seen: seen.sampled > requested and seen.age_seconds < 30,
        )  # fmt: skip
    watch.close()
    new = _all_agents(cluster_client, three)
    print("agents:", *(f"{name}: {old[name]} -> {new[name]}" for name in three))
    assert all(old[name] != new[name] for name in three)
    assert min(len(names & set(three)) for names in watch.with_agent) == len(three) - 1
    for state in before:
        states = [watched for watched in watch.states if watched.name == state.name]
        oldest = max(watched.age_seconds for watched in states)
        print(f"{state.name}: its report was {oldest:.0f} s old at most, seen {len(states)} times")
        assert {watched.mid for watched in states} == {state.mid}
        assert oldest <= OLDEST_SECONDS
