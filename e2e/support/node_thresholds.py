"""Set the load thresholds of one node."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from typing import Final

from e2e.support.cluster_client import ClusterClient
from e2e.support.names import THRESHOLDS_ANNOTATION
from tools.localcluster.access import Cluster

NEVER_HOT: Final = 0
"""Switches the check off: on a busy machine, usage and the expected usage of new pods may exceed 100 %."""


def set_threshold(cluster_client: ClusterClient, node: str, percent: int | None) -> None:
    """Set the threshold of CPU and memory in percent; None restores that of the scheduler's configuration."""
    limits = None if percent is None else json.dumps({"usageThresholds": {"cpu": percent, "memory": percent}})
    cluster_client.patch("Node", node, {"metadata": {"annotations": {THRESHOLDS_ANNOTATION: limits}}})


@contextlib.contextmanager
def real_nodes_never_hot(cluster: Cluster, cluster_client: ClusterClient) -> Iterator[None]:
    """Allow pods on real nodes, also on a busy machine; the case of hot nodes sets its own thresholds."""
    for name in cluster.real_nodes():
        set_threshold(cluster_client, name, NEVER_HOT)
    yield
    for name in cluster.real_nodes():
        set_threshold(cluster_client, name, None)
