"""Set the load thresholds of one node."""

from __future__ import annotations

import json
from typing import Final

from e2e.support.cluster_client import ClusterClient
from e2e.support.names import THRESHOLDS_ANNOTATION

NEVER_HOT: Final = 0
"""Switches the check off: on a busy machine, usage and the expected usage of new pods may exceed 100 %."""


def set_threshold(cluster_client: ClusterClient, node: str, percent: int | None) -> None:
    """Set the threshold of CPU and memory in percent; None restores that of the scheduler's configuration."""
    limits = None if percent is None else json.dumps({"usageThresholds": {"cpu": percent, "memory": percent}})
    cluster_client.patch("Node", node, {"metadata": {"annotations": {THRESHOLDS_ANNOTATION: limits}}})
