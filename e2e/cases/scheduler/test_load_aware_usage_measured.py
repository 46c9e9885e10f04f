"""The real node by its real load: thresholds just below the measured usage reject pods, higher ones do not.

By percentile and by Prod usage; current usage is the subject of test_pod_avoids_hot_node.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from e2e.support import node_thresholds, waiting, workloads
from e2e.support.cluster_client import ClusterClient, cpu_millis
from e2e.support.installation import Suite
from e2e.support.names import THRESHOLDS_ANNOTATION
from e2e.support.scheduling import SchedulingHelper

PERCENTILE, WINDOW_SECONDS = "p95", 5 * 60
BUSY_CORES, BUSY_AT_LEAST_MILLIS = "0.5", 100
WAIT_SECONDS = WINDOW_SECONDS / 2 + 60  # a percentile wants half its window

Thresholds = Callable[[dict[str, Any]], None]


@pytest.fixture
def thresholds(cluster_client: ClusterClient, node: str) -> Iterator[Thresholds]:
    """Give the real node thresholds of its own; afterwards it is never hot, as before."""
    yield lambda own: cluster_client.patch(
        "Node", node, {"metadata": {"annotations": {THRESHOLDS_ANNOTATION: json.dumps(own)}}}
    )
    node_thresholds.set_threshold(cluster_client, node, node_thresholds.NEVER_HOT)


def _percent(cluster_client: ClusterClient, node: str, millis: int) -> int:
    return 100 * millis // cpu_millis(cluster_client.get("Node", node)["status"]["allocatable"]["cpu"])


def _below(percent: int) -> dict[str, int]:
    return {"cpu": max(percent // 2, 1)}


def _above(percent: int) -> dict[str, int]:
    return {"cpu": 2 * percent + 50}


def test_by_prod_usage(
    cluster_client: ClusterClient, suite: Suite, scheduling: SchedulingHelper, node: str, thresholds: Thresholds
) -> None:
    busy = workloads.pod(
        "busy", suite.workload, *workloads.load(cores=BUSY_CORES), requests={"cpu": "50m"}, nodes=[node]
    )
    cluster_client.create("Pod", busy, scheduling.namespace)

    def measured() -> int:
        reported = cluster_client.node_metric(node)["status"]["podsMetric"]
        of_prod = [each for each in reported if each.get("priority") == "koord-prod"]
        millis = {each["name"]: cpu_millis(each["podUsage"]["resources"]["cpu"]) for each in of_prod}
        return sum(millis.values()) if millis.get("busy", 0) >= BUSY_AT_LEAST_MILLIS else 0

    millis = waiting.until("the busy pod is reported", measured, within_seconds=120)
    thresholds({"prodUsageThresholds": _above(_percent(cluster_client, node, millis))})
    assert scheduling.lands_soon("under-prod", workloads.SCHEDULER, node)
    thresholds({"prodUsageThresholds": _below(_percent(cluster_client, node, millis)), "usageThresholds": {"cpu": 0}})
    assert scheduling.is_refused_soon("over-prod", workloads.SCHEDULER, node, "node(s) cpu usage exceed threshold")
    scheduling.submit("not-prod", workloads.SCHEDULER, [node], priority_class="koord-batch")
    assert scheduling.bound(["not-prod"]) == [node]


def test_by_percentile(
    cluster_client: ClusterClient, scheduling: SchedulingHelper, node: str, thresholds: Thresholds
) -> None:
    def measured() -> int:
        windows = cluster_client.node_metric(node)["status"]["nodeMetric"]["aggregatedNodeUsages"]
        (window,) = [each for each in windows if each["duration"] in {"5m", "5m0s"}]
        return cpu_millis(window["usage"][PERCENTILE]["resources"]["cpu"])

    millis = waiting.until("a percentile of 5 minutes", measured, within_seconds=WAIT_SECONDS)

    def own(limits: dict[str, int]) -> dict[str, Any]:
        statistic = {"usageAggregationType": PERCENTILE, "usageAggregatedDuration": "5m"}
        return {"aggregatedUsage": {"usageThresholds": limits, **statistic}}

    thresholds(own(_above(_percent(cluster_client, node, millis))))
    assert scheduling.lands_soon("under-p95", workloads.SCHEDULER, node)
    thresholds(own(_below(_percent(cluster_client, node, millis))))
    why = "node(s) cpu aggregated usage exceed threshold"
    assert scheduling.is_refused_soon("over-p95", workloads.SCHEDULER, node, why)
