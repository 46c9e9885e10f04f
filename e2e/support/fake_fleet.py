"""Fake nodes of one story's own, so that nobody else's reports and pods are on them."""

from __future__ import annotations

import contextlib
import datetime as dt
from collections.abc import Iterator, Sequence

from e2e.support import waiting
from e2e.support.cluster_client import ClusterClient, cpu_millis, units
from tools.localcluster import fake_nodes

CPU_MILLIS = cpu_millis(fake_nodes.ALLOCATABLE["cpu"])
MEMORY_MIB = units(fake_nodes.ALLOCATABLE["memory"]) // 2**20


@contextlib.contextmanager
def registered(eyes: ClusterClient, names: Sequence[str]) -> Iterator[list[str]]:
    """Register nodes `fake-<name>` and wait until the manager has made their NodeMetrics; in the end they are gone.

    Their Leases are renewed by the heartbeats of all fake nodes, which must be running.
    """
    made = [f"{fake_nodes.PREFIX}{name}" for name in names]
    for name in made:
        node = fake_nodes.node(0, dt.datetime.now(dt.UTC))
        node["metadata"]["name"] = node["metadata"]["labels"]["kubernetes.io/hostname"] = name
        eyes.create("Node", node)
    try:
        waiting.until(
            "the manager makes their NodeMetrics",
            lambda: [name for name in made if eyes.find("NodeMetric", name) is None],
            lambda missing: not missing,
        )
        yield made
    finally:
        for name in made:
            eyes.delete("Node", name)
