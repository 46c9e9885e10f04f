"""The ConfigMap that users edit, and the document the stories start from."""

from __future__ import annotations

import copy
import json
from typing import Any, Final

from e2e.support.cluster_client import CONFIG_MAP, SUITE_NAMESPACE, ClusterClient

KEY: Final = "colocation-config"

BASE: Final[dict[str, Any]] = {
    "enable": True,
    # The agent's floors: a story should not wait for minutes.
    "metricAggregateDurationSeconds": 60,
    "metricReportIntervalSeconds": 30,
    # Every report is published, so that node and NodeMetric can be compared.
    "updateTimeThresholdSeconds": 1,
    # The control plane is system usage on the one real node, and may leave no CPU to reclaim: half of what nobody
    # requests is offered as well, so that Mid is surely positive.
    "midUnallocatedPercent": 50,
    "nodePredictPolicy": {
        # Pods count by their history from the first half minute on.
        "coldStartPeriodSeconds": 0,
        "n": 2,
        "checkIntervalSeconds": 5,
        "resourceDiffThresholdPercent": 1,
        # Short enough for decay to matter within a story.
        "cpuHalfLifeSeconds": 120,
        "memoryHalfLifeSeconds": 180,
    },
}


def changed(**keys: Any) -> dict[str, Any]:
    """BASE with other keys on top."""
    return {**copy.deepcopy(BASE), **keys}


def read(eyes: ClusterClient) -> str | None:
    """Text of the document in the cluster."""
    found = eyes.find("ConfigMap", CONFIG_MAP, SUITE_NAMESPACE)
    return (found.get("data") or {}).get(KEY) if found else None


def write(eyes: ClusterClient, document: dict[str, Any] | str | None) -> None:
    """Put a document, or any text, into the ConfigMap; None removes the key."""
    text = json.dumps(document, indent=2) if isinstance(document, dict) else document
    eyes.patch("ConfigMap", CONFIG_MAP, {"data": {KEY: text}}, SUITE_NAMESPACE)
