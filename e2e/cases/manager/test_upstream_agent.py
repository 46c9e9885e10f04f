"""With Koordinator's own agent, which lacks the suite's fields: Mid from its report and one list of the pods."""

from __future__ import annotations

import datetime as dt
import json
import time
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

import pytest

from e2e.support import fake_fleet, slo_config, waiting, workloads
from e2e.support.cluster_client import ClusterClient, cpu_millis, moment, units
from e2e.support.names import MID_CPU, MID_MEMORY
from tools.localcluster.access import Cluster

PROD = {"cpu": "3", "memory": "8Gi"}
BATCH = {"cpu": "1", "memory": "0"}
USAGE = {"cpu": "1200m", "memory": "5Gi"}
RECLAIMABLE = {"cpu": "2500m", "memory": "9Gi"}
SHARE_PERCENT, MEMORY_CAP_PERCENT = 25, 10
QUIET_SECONDS = 3


def _reported() -> dict[str, Any]:
    """Return a status as upstream's agent writes it."""
    usage = {"resources": USAGE}
    return {
        "updateTime": fake_fleet.now(),
        "nodeMetric": {
            "nodeUsage": usage,
            "systemUsage": {"resources": {"cpu": "200m", "memory": "1Gi"}},
            "aggregatedNodeUsages": [{"duration": "5m0s", "usage": {"avg": usage, "p99": usage}}],
        },
        "podsMetric": [{"name": "steady", "namespace": "default", "podUsage": usage, "priority": "koord-prod"}],
        "prodReclaimableMetric": {"resource": {"resources": RECLAIMABLE}},
    }


@pytest.fixture(scope="module")
def published(
    cluster_client: ClusterClient, suite: Any, fake_nodes: list[str], namespace: str
) -> Iterator[tuple[str, dt.datetime]]:
    """Report like upstream's agent for a fake node with a Prod and a Batch pod; return the node and the time."""
    node = fake_nodes[1]
    for name, priority_class, requests in (("prod", "koord-prod", PROD), ("batch", "koord-batch", BATCH)):
        pod = workloads.pod(name, suite.workload, requests=requests, priority_class=priority_class, nodes=[node])
        cluster_client.create("Pod", pod, namespace)
        waiting.until(
            f"{name} is bound", lambda name=name: cluster_client.get("Pod", name, namespace)["spec"].get("nodeName")
        )
    slo_config.write(
        cluster_client,
        slo_config.changed(
            midUnallocatedPercent=SHARE_PERCENT,
            midMemoryThresholdPercent=MEMORY_CAP_PERCENT,
            updateTimeThresholdSeconds=300,
        ),
    )
    waiting.until(
        "the configuration arrives",
        lambda: cluster_client.node_metric(node)["spec"]["midColocationPolicy"]["midUnallocatedPercent"],
        lambda seen: seen == SHARE_PERCENT,
    )
    # In one write: another one before it could be handled, with a list of the pods, after the report.
    absent = dict.fromkeys(("prodPeakMetric", "allocated", "usage", "prediction"))
    written = dt.datetime.now(dt.UTC)
    fake_fleet.report(cluster_client, node, {**_reported(), **absent})
    yield node, written
    slo_config.write(cluster_client, slo_config.BASE)


def _due(cluster_client: ClusterClient, node: str) -> tuple[int, int]:
    """Return min( reclaimable, allocatable * cap ) + share * ( allocatable - requests ), or what is unused."""
    status = cluster_client.get("Node", node)["status"]
    allocatable, capacity = status["allocatable"], status["capacity"]

    def one(name: str, read: Callable[[str], int], cap_percent: int) -> int:
        whole = read(allocatable[name])
        capped = min(read(RECLAIMABLE[name]), int(whole * Fraction(cap_percent, 100)))
        offered = capped + int((whole - read(PROD[name]) - read(BATCH[name])) * Fraction(SHARE_PERCENT, 100))
        return min(offered, read(capacity[name]) - read(USAGE[name]))

    return one("cpu", cpu_millis, 100), one("memory", units, MEMORY_CAP_PERCENT)


def test_mid_follows_from_reported_reclaimable_and_the_pods(
    cluster_client: ClusterClient, published: tuple[str, dt.datetime]
) -> None:
    node, _ = published
    due = _due(cluster_client, node)
    waiting.until("Mid by its report", lambda: cluster_client.mid(node), lambda seen: seen == due, within_seconds=20)
    mid_status = cluster_client.mid_status(node)
    assert (mid_status["reason"], mid_status["requestsFrom"]) == ("CalculatedFromReclaimable", "pods")
    assert {name: line["source"] for name, line in mid_status["resources"].items()} == {
        MID_CPU: "reported",
        MID_MEMORY: "reported",
    }


def test_the_pods_are_listed_once_for_it(cluster: Cluster, published: tuple[str, dt.datetime]) -> None:
    if cluster.audit_log is None or not cluster.audit_log.exists():
        pytest.skip(f"provider {cluster.provider} does not show the apiserver's audit log")
    node, written = published
    time.sleep(
        QUIET_SECONDS
    )  # a component that lists again does so after the write to the node, which is an event as well
    assert len(_lists_of_pods(cluster, node, written)) == 1


def _lists_of_pods(cluster: Cluster, node: str, since: dt.datetime) -> list[dict[str, Any]]:
    events = [json.loads(line) for line in cluster.audit_log.read_text().splitlines() if "koord-manager" in line]
    return [
        event
        for event in events
        if event["verb"] == "list"
        and event["objectRef"]["resource"] == "pods"
        and node in event["requestURI"]
        and moment(event["requestReceivedTimestamp"]) >= since
    ]
