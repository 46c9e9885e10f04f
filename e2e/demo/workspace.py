"""The folder in which the steps are typed: the chart, the values, and the examples with the numbers of one machine."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from e2e.demo.checks import MIB, Amount
from e2e.support.names import STATE_HOST_PATH
from tools.localcluster import content_cache

EXAMPLES = content_cache.REPOSITORY / "examples"
CONFIG = {
    "enable": True,
    "metricReportIntervalSeconds": 30,
    "metricAggregateDurationSeconds": 60,
    "predictPolicy": {
        "resourceDiffThresholdPercent": 5,
        "coldStartPeriodSeconds": 60,
        "n": 2,
        "cpuHalfLifeSeconds": 60,
        "memoryHalfLifeSeconds": 60,
    },
    "midCPUThresholdPercent": 60,
    "midMemoryThresholdPercent": 70,
    "midUnallocatedPercent": 30,
}
"""Numbers for a small machine: pods are cold for a minute, the history has a half-life of a minute."""
MID_CPU_MILLIS, MID_MEMORY_MIB = 60, 128
_LOADS = {
    "prod-deployment": ["--cpu-cores", "0.1", "--memory-mib", "150"],
    "mid-deployment": ["--cpu-cores", "0.02", "--memory-mib", "20"],
}
"""Usage of the pods of each example, by the flags of the workload image."""
_IMAGES = {
    "koordlet": "koordlet",
    "manager": "manager",
    "scheduler.plugin": "scheduler-plugin",
    "scheduler": "koord-scheduler",
}


def values(images: Mapping[str, str]) -> dict[str, Any]:
    """Return the values of the chart for images of this checkout, which are on the nodes."""
    found: dict[str, Any] = {
        "koordlet": {"stateHostPath": STATE_HOST_PATH},
        "manager": {"eviction": {"namespaces": ["default"]}},
    }
    for path, name in _IMAGES.items():
        below = found
        for key in path.split("."):
            below = below.setdefault(key, {})
        below["image"] = dict(zip(("repository", "tag"), images[name].rsplit(":", 1), strict=True))
    return found


def make(folder: Path, chart_values: Mapping[str, Any], workload: str, shop: Amount) -> None:
    """Fill a folder. The Prod pods of the example request as much as `shop`; pods run the image `workload`."""
    (folder / "charts").symlink_to(content_cache.REPOSITORY / "charts")
    (folder / "values.yaml").write_text(json.dumps(chart_values), encoding="utf-8")
    examples = folder / "examples"
    examples.mkdir()
    config = {"data": {"colocation-config": json.dumps(CONFIG)}}
    (examples / "colocation-config.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")
    prod = {"cpu": f"{shop.cpu_millis}m", "memory": str(shop.memory_bytes // MIB * MIB)}
    cpu, memory = str(MID_CPU_MILLIS), f"{MID_MEMORY_MIB}Mi"
    mid = {"kubernetes.io/mid-cpu": cpu, "kubernetes.io/mid-memory": memory}
    amounts = {
        "prod-deployment": (prod, prod),
        "mid-deployment": ({**mid, "cpu": "0", "memory": "0"}, {**mid, "cpu": f"{cpu}m", "memory": memory}),
    }
    for name, (requests, limits) in amounts.items():
        document = yaml.safe_load((EXAMPLES / f"{name}.yaml").read_text(encoding="utf-8"))
        (container,) = document["spec"]["template"]["spec"]["containers"]
        container.pop("command", None)
        container |= {"image": workload, "args": _LOADS[name], "resources": {"requests": requests, "limits": limits}}
        (examples / f"{name}.yaml").write_text(yaml.safe_dump(document), encoding="utf-8")
    too_large = "mid-too-large.yaml"
    (examples / too_large).write_text((EXAMPLES / too_large).read_text(encoding="utf-8"), encoding="utf-8")
