"""What decides where pods go: a node's own load thresholds."""

from __future__ import annotations

import json
from typing import Final

from e2e.support.cluster_client import ClusterClient

THRESHOLDS: Final = "scheduling.koordinator.sh/usage-thresholds"
NEVER_HOT: Final = 0
"""Not checked. A busy machine's usage and what new pods are expected to use may well be more than 100 %."""


def set_threshold(eyes: ClusterClient, node: str, percent: int | None) -> None:
    """Call a node hot above so many percent of its CPU or memory; None leaves it to the scheduler's configuration."""
    limits = None if percent is None else json.dumps({"usageThresholds": {"cpu": percent, "memory": percent}})
    eyes.patch("Node", node, {"metadata": {"annotations": {THRESHOLDS: limits}}})
