"""The ConfigMap that users edit, and the base document of all cases."""

from __future__ import annotations

import copy
import json
from typing import Any, Final

from e2e.support.cluster_client import ClusterClient
from e2e.support.names import CONFIG_MAP, SUITE_NAMESPACE

KEY: Final = "colocation-config"

BASE: Final[dict[str, Any]] = {
    "enable": True,
    # The smallest values of the agent: a case should not wait for minutes.
    "metricAggregateDurationSeconds": 60,
    "metricReportIntervalSeconds": 30,
    # Every report is published, so that node and NodeMetric can be compared.
    "updateTimeThresholdSeconds": 1,
    # The control plane is system usage on the one real node, and may leave no CPU to reclaim: half of the unrequested
    # part is published as well, so that Mid is always positive.
    "midUnallocatedPercent": 50,
    "nodePredictPolicy": {
        # Pods count by their history from the first half minute on.
        "coldStartPeriodSeconds": 0,
        "n": 2,
        "checkIntervalSeconds": 5,
        "resourceDiffThresholdPercent": 1,
        # Short enough for a measurable decay within a case.
        "cpuHalfLifeSeconds": 120,
        "memoryHalfLifeSeconds": 180,
    },
}


STATIC: Final[dict[str, Any]] = {
    "midReclaimMode": "static",
    "midStaticCPUReservedPercent": 30,
    "midStaticMemoryReservedPercent": 20,
}
"""Keys with which a node offers Mid however busy the machine is, for cases that are not about how much it offers."""


def changed(**keys: Any) -> dict[str, Any]:
    """Return BASE with other keys on top."""
    return {**copy.deepcopy(BASE), **keys}


def read(cluster_client: ClusterClient) -> str | None:
    """Return the text of the document in the cluster."""
    found = cluster_client.find("ConfigMap", CONFIG_MAP, SUITE_NAMESPACE)
    return (found.get("data") or {}).get(KEY) if found else None


def write(cluster_client: ClusterClient, document: dict[str, Any] | str | None) -> None:
    """Put a document, or any text, into the ConfigMap; None removes the key."""
    text = json.dumps(document, indent=2) if isinstance(document, dict) else document
    cluster_client.patch("ConfigMap", CONFIG_MAP, {"data": {KEY: text}}, SUITE_NAMESPACE)
