"""Synthetic objects as large as real ones: nodes with labels and images, pods with containers, and NodeMetrics with
every window and statistic that koordlet reports.

All values are derived from the names, so that separate processes have the same cluster.
"""

from __future__ import annotations

import datetime as dt
import random
import zlib
from typing import Any, Final

WINDOWS: Final = ("5m0s", "10m0s", "15m0s", "30m0s")
STATISTICS: Final = ("avg", "p50", "p90", "p95", "p99", "std")
CPU_MILLIS: Final = 32_000
MEMORY_BYTES: Final = 128 * 2**30
POD_SHAPES: Final = 300
"""Number of different requests of pods, like the workloads of a cluster."""


def node_name(index: int) -> str:
    """Return a name like those of node pools, 40 characters."""
    return f"node-pool-{index // 100:04d}-instance-{index:06d}-abcdef"


def node_names(count: int) -> list[str]:
    """Return the names of so many nodes."""
    return [node_name(index) for index in range(count)]


def pod_name(node: str, index: int) -> str:
    """Return a name like those of a Deployment's pods."""
    return f"application-{index:02d}-7d9f8b6c5-{zlib.crc32(node.encode()):08x}"


def moment(seconds: float) -> str:
    """Return a time as RFC 3339 text."""
    return dt.datetime.fromtimestamp(seconds, dt.UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def node(name: str) -> dict[str, Any]:
    """Return a node of 32 cores and 128 GiB, about 7 kB."""
    resources = {"cpu": str(CPU_MILLIS // 1000), "memory": f"{MEMORY_BYTES // 2**20}Mi", "pods": "110"}
    labels = {f"topology.example/label-{index:02d}": f"value-{index:02d}-of-{name[:14]}" for index in range(20)}
    annotations = {f"example.com/annotation-{index}": "a value of some length " * 3 for index in range(6)}
    return {
        "metadata": {
            "name": name,
            "uid": f"00000000-0000-4000-8000-{zlib.crc32(name.encode()):012d}",
            "resourceVersion": "1",
            "labels": labels,
            "annotations": annotations,
        },
        "spec": {"podCIDR": "10.0.0.0/24"},
        "status": {
            "allocatable": resources,
            "capacity": resources,
            "images": [{"names": [f"registry.example/image-{index}@sha256:{'0' * 64}"]} for index in range(40)],
        },
    }


def node_metric(name: str, pod_count: int, updated: float) -> dict[str, Any]:
    """Return a report of `pod_count` Prod pods: 15 kB with 50."""
    seed = random.Random(name)

    def usage() -> dict[str, Any]:
        cpu_millis, memory_bytes = seed.randint(1000, 20_000), seed.randint(10 * 2**30, 100 * 2**30)
        return {"resources": {"cpu": f"{cpu_millis}m", "memory": str(memory_bytes)}}

    def pod_usage(index: int) -> dict[str, Any]:
        own = {"cpu": f"{seed.randint(10, 900)}m", "memory": str(seed.randint(1, 2**30))}
        return {
            "namespace": f"team-{index % 7}",
            "name": pod_name(name, index),
            "podUsage": {"resources": own},
            "priority": "koord-prod",
            "qos": "LS",
        }

    def statistic(kind: str) -> dict[str, Any]:
        """Return a valid statistic: a deviation below its mean, and means consistent with those of shorter windows."""
        scale = 1 if kind == "std" else 8
        cpu_millis, memory_bytes = seed.randint(1000, 2000), seed.randint(5 * 2**30, 10 * 2**30)
        return {"resources": {"cpu": f"{scale * cpu_millis}m", "memory": str(scale * memory_bytes)}}

    aggregated = [{"duration": window, "usage": {kind: statistic(kind) for kind in STATISTICS}} for window in WINDOWS]
    predicted = {"resource": usage()}
    return {
        "metadata": {"name": name, "uid": f"metric-of-{name}", "resourceVersion": "1"},
        "spec": {"metricCollectPolicy": {"reportIntervalSeconds": 60}},
        "status": {
            "updateTime": moment(updated),
            "nodeMetric": {"nodeUsage": usage(), "systemUsage": usage(), "aggregatedNodeUsages": aggregated},
            "podsMetric": [pod_usage(index) for index in range(pod_count)],
            "prodPeakMetric": predicted,
            "prodReclaimableMetric": predicted,
            "allocated": {"prod": {"cpu": "20", "memory": "64Gi"}, "mid": {}},
            "prediction": {"predictor": "n-sigma-v2", "node": {"mean": usage()["resources"]}},
        },
    }


def pod(name: str, *, namespace: str = "default", node: str = "", scheduled: float | None = None) -> dict[str, Any]:
    """Return a Prod pod of two containers, about 5 kB: pending, or running on `node` since `scheduled`.

    Its name selects one of POD_SHAPES requests; their mean is a core and 2 GiB.
    """
    shape = zlib.crc32(name.encode()) % POD_SHAPES
    requests = {"cpu": f"{201 + 2 * shape}m", "memory": f"{426 + 4 * shape}Mi"}
    container = {
        "image": "registry.example/app:v1",
        "env": [{"name": f"VARIABLE_{index}", "value": "value-" * 5} for index in range(24)],
        "resources": {"requests": requests, "limits": requests},
    }
    first, second = zlib.crc32(f"{namespace}/{name}".encode()), zlib.crc32(f"{name}/{namespace}".encode())
    since = {} if scheduled is None else {"lastTransitionTime": moment(scheduled)}
    conditions = [{"type": kind, "status": "True", **since} for kind in ("PodScheduled", "Initialized", "Ready")]
    return {
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": f"{first:08x}-0000-4000-8000-{second:012d}",
            "resourceVersion": "1",
            "labels": {"app": "web"},
        },
        "spec": {
            "containers": [{"name": f"c{index}", **container} for index in range(2)],
            "priority": 9500,
            "nodeName": node,
        },
        "status": {
            "phase": "Running" if node else "Pending",
            "qosClass": "Burstable",
            "conditions": conditions if node else [],
        },
    }


def pods_of(node: str, count: int, scheduled: float) -> list[dict[str, Any]]:
    """Return the pods that `node_metric` reports for a node."""
    return [
        pod(pod_name(node, index), namespace=f"team-{index % 7}", node=node, scheduled=scheduled)
        for index in range(count)
    ]
