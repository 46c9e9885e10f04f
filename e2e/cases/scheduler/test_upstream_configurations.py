"""Configurations of Koordinator's documentation, and that of its node prediction proposal, are accepted unchanged."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import yaml

from e2e.support import waiting
from e2e.support.cluster_client import ClusterClient
from e2e.support.names import CONFIG_MAP, SUITE_NAMESPACE

STATUS = "koordinator.sh/colocation-config-status"
MINIMAL = {"enable": True}
DOCUMENTED = {
    "enable": True,
    "metricAggregateDurationSeconds": 300,
    "metricReportIntervalSeconds": 60,
    "metricAggregatePolicy": {"durations": ["5m", "10m", "15m"]},
    "cpuReclaimThresholdPercent": 60,
    "memoryReclaimThresholdPercent": 65,
    "memoryCalculatePolicy": "usage",
    "degradeTimeMinutes": 15,
    "updateTimeThresholdSeconds": 300,
    "resourceDiffThreshold": 0.1,
    "nodeConfigs": [
        {
            "name": "anolis",
            "nodeSelector": {"matchLabels": {"kubernetes.io/kernel": "anolis"}},
            "updateTimeThresholdSeconds": 360,
            "resourceDiffThreshold": 0.2,
        }
    ],
}
PROPOSED = {
    "enable": True,
    "predictPolicy": {"resourceDiffThresholdPercent": 5, "coldStartPeriodSeconds": 3600},
    "midCPUThresholdPercent": 45,
    "midMemoryThresholdPercent": 65,
}


def _spec(report_seconds: int, windows: list[str], cold_seconds: int, caps: tuple[int, int]) -> tuple[Any, ...]:
    return report_seconds, windows, cold_seconds, caps


@pytest.mark.parametrize(
    ("document", "wanted"),
    [
        pytest.param(MINIMAL, _spec(60, ["5m0s", "10m0s", "30m0s"], 7200, (100, 100)), id="shipped"),
        pytest.param(DOCUMENTED, _spec(60, ["5m0s", "10m0s", "15m0s"], 7200, (100, 100)), id="documented"),
        pytest.param(PROPOSED, _spec(60, ["5m0s", "10m0s", "30m0s"], 3600, (45, 65)), id="proposed"),
    ],
)
def test_it_is_in_force_without_a_warning(
    configure: Callable[..., None],
    cluster_client: ClusterClient,
    fake_nodes: list[str],
    document: dict[str, Any],
    wanted: tuple[Any, ...],
) -> None:
    warned = _warnings(cluster_client)
    configure(document)
    waiting.until(
        "it reaches the spec", lambda: _of_spec(cluster_client, fake_nodes[0]), wanted.__eq__, within_seconds=20
    )
    accepted = waiting.until(
        "the ConfigMap reports it",
        lambda: yaml.safe_load(
            cluster_client.get("ConfigMap", CONFIG_MAP, SUITE_NAMESPACE)["metadata"]["annotations"][STATUS]
        ),
        lambda seen: "colocation is on" in seen["message"],
    )
    assert accepted["status"] == "True", accepted
    assert "problems" not in accepted
    assert _warnings(cluster_client) == warned


def _of_spec(cluster_client: ClusterClient, node: str) -> tuple[Any, ...]:
    spec = cluster_client.node_metric(node)["spec"]
    collect, mid = spec["metricCollectPolicy"], spec["midColocationPolicy"]
    return _spec(
        collect["reportIntervalSeconds"],
        collect["nodeAggregatePolicy"]["durations"],
        spec["predictPolicy"]["coldStartPeriodSeconds"],
        (mid["midCPUThresholdPercent"], mid["midMemoryThresholdPercent"]),
    )


def _warnings(cluster_client: ClusterClient) -> dict[str, int]:
    """Return the warnings about the ConfigMap, and how often each was emitted."""
    events = cluster_client.events_of(CONFIG_MAP, SUITE_NAMESPACE)
    return {each["message"]: each["count"] for each in events if each["type"] == "Warning"}
