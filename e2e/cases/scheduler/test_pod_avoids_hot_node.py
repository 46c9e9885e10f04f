"""A hot node takes no more pods, the pod's Event states why, and the extender is the reason."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from e2e.support import fake_fleet, node_thresholds, waiting, workloads
from e2e.support.cluster_client import ClusterClient
from e2e.support.installation import Suite

CPU_REASON = "cpu usage exceed threshold"
HOT_MILLIS, COOL_MILLIS = 14000, 1000  # of 15500 allocatable
CHOOSERS = 4


@pytest.fixture
def reports(cluster_client: ClusterClient, fake_nodes: list[str]) -> Callable[[], tuple[str, str]]:
    """Report a hot node and a cool one, as of now; returns their names."""

    def write() -> tuple[str, str]:
        hot, cool = fake_nodes[:2]
        fake_fleet.report(cluster_client, hot, fake_fleet.prod_status(cpu_millis=HOT_MILLIS, memory_mib=4096))
        fake_fleet.report(cluster_client, cool, fake_fleet.prod_status(cpu_millis=COOL_MILLIS, memory_mib=4096))
        return hot, cool

    return write


def _pod(suite: Suite, name: str, nodes: list[str]) -> dict:
    requests = {"cpu": "100m", "memory": "32Mi"}
    return workloads.pod(name, suite.workload, requests=requests, scheduler=workloads.SCHEDULER, nodes=nodes)


def _node_of(cluster_client: ClusterClient, name: str, namespace: str) -> str | None:
    return cluster_client.get("Pod", name, namespace)["spec"].get("nodeName")


def _refusal(cluster_client: ClusterClient, name: str, namespace: str) -> str:
    def read() -> tuple[list[str], str | None]:
        events = cluster_client.events_of(name, namespace, "FailedScheduling")
        return [event["message"] for event in events], _node_of(cluster_client, name, namespace)

    messages, _ = waiting.until(f"{name} is refused", read, lambda seen: seen[0])
    return messages[-1]


def test_pods_with_a_choice_go_to_the_cool_node(
    cluster_client: ClusterClient, suite: Suite, namespace: str, reports: Callable[[], tuple[str, str]]
) -> None:
    hot, cool = reports()
    names = [f"chooser-{index}" for index in range(CHOOSERS)]
    for name in names:
        cluster_client.create("Pod", _pod(suite, name, [hot, cool]), namespace)
    chosen = waiting.until("all are bound", lambda: [_node_of(cluster_client, name, namespace) for name in names], all)
    assert chosen == [cool] * CHOOSERS


@pytest.mark.long
def test_a_pod_without_a_choice_waits_until_the_extender_is_disabled(
    cluster_client: ClusterClient, suite: Suite, namespace: str, reports: Callable[[], tuple[str, str]]
) -> None:
    hot, _ = reports()
    cluster_client.create("Pod", _pod(suite, "only-there", [hot]), namespace)
    assert CPU_REASON in _refusal(cluster_client, "only-there", namespace)
    assert _node_of(cluster_client, "only-there", namespace) is None
    suite.switch_plugin(on=False)
    try:
        waiting.until(
            "the same pod is bound", lambda: _node_of(cluster_client, "only-there", namespace), lambda seen: seen == hot
        )
    finally:
        suite.switch_plugin(on=True)


def test_a_measured_load_rejects_a_pod_until_it_is_below_the_threshold(
    cluster_client: ClusterClient, suite: Suite, node: str, namespace: str
) -> None:
    try:
        node_thresholds.set_threshold(cluster_client, node, 1)  # which the expected usage of the pod exceeds
        cluster_client.create("Pod", _pod(suite, "measured", [node]), namespace)
        assert CPU_REASON in _refusal(cluster_client, "measured", namespace)
        assert _node_of(cluster_client, "measured", namespace) is None
    finally:
        node_thresholds.set_threshold(cluster_client, node, node_thresholds.NEVER_HOT)
    cluster_client.wait_running(namespace, "measured", within_seconds=60)
