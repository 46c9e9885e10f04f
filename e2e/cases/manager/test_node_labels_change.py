"""A node's labels change so that another entry of `nodeConfigs` matches: its NodeMetric's spec and its Mid follow."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from e2e.support import fake_fleet, mid_formula, slo_config, waiting
from e2e.support.cluster_client import ClusterClient
from e2e.support.slo_config import BASE

LABEL = "koord-suite.io/pool"
POOLS: list[dict[str, Any]] = [
    {
        "name": "precious",
        "nodeSelector": {"matchExpressions": [{"key": LABEL, "operator": "In", "values": ["gold", "silver"]}]},
        "midUnallocatedPercent": 80,
        "metricReportIntervalSeconds": 45,
        "nodePredictPolicy": {"n": 4},
    },
    {"name": "plain", "nodeSelector": {"matchLabels": {LABEL: "tin"}}, "midMemoryThresholdPercent": 5},
]


@pytest.fixture
def pooled(cluster_client: ClusterClient, fake_nodes: list[str]) -> Callable[[str | None], None]:
    """Put a node into a pool, or out of any."""

    def put(pool: str | None) -> None:
        cluster_client.patch("Node", fake_nodes[0], {"metadata": {"labels": {LABEL: pool}}})

    yield put
    put(None)


def _values(cluster_client: ClusterClient, node: str) -> tuple[int, int, int, float]:
    """Return the values of a node's spec in which the entries differ: unallocated share, memory cap, interval and N."""
    spec = cluster_client.node_metric(node)["spec"]
    mid = spec["midColocationPolicy"]
    return (
        mid["midUnallocatedPercent"],
        mid["midMemoryThresholdPercent"],
        spec["metricCollectPolicy"]["reportIntervalSeconds"],
        spec["predictPolicy"]["n"],
    )


def test_spec_and_mid_follow_the_entry_that_matches(
    configure: Callable[..., None],
    pooled: Callable[[str | None], None],
    cluster_client: ClusterClient,
    fake_nodes: list[str],
) -> None:
    node, other = fake_nodes
    interval, n = BASE["metricReportIntervalSeconds"], BASE["nodePredictPolicy"]["n"]
    no_entry = 10, 100, interval, n
    configure(slo_config.changed(midUnallocatedPercent=10, nodeConfigs=POOLS))
    waiting.until(
        "the cluster's values",
        lambda: [_values(cluster_client, each) for each in fake_nodes],
        [no_entry, no_entry].__eq__,
    )
    offered = fake_fleet.publish(cluster_client, node)
    for pool, wanted in (("gold", (80, 100, 45, 4)), ("tin", (10, 5, interval, n)), (None, no_entry)):
        before = cluster_client.mid(node)
        pooled(pool)
        waiting.until(f"the values of {pool}", lambda: _values(cluster_client, node), wanted.__eq__, within_seconds=20)
        waiting.until("other Mid", lambda: cluster_client.mid(node), lambda seen, before=before: seen != before)
        assert mid_formula.wait_published(cluster_client, node).offered != before
        kept = cluster_client.node_metric(node)["spec"]["predictPolicy"]["cpuHalfLifeSeconds"]
        assert kept == BASE["nodePredictPolicy"]["cpuHalfLifeSeconds"], "keys below an object merge"
        assert _values(cluster_client, other) == no_entry
    assert cluster_client.mid(node) == offered
