"""Reports with mean and deviation over the windows that Trimaran's policies read, in percent of a fake node."""

from __future__ import annotations

from typing import Any, NamedTuple

from e2e.support import fake_reports
from e2e.support.cluster_client import cpu_millis, units
from tools.localcluster import fake_nodes

WINDOWS = ("5m0s", "10m0s", "15m0s")
MEMORY_PERCENT = 20.0
_CPU_MILLIS = cpu_millis(fake_nodes.CAPACITY["cpu"])
_MEMORY_BYTES = units(fake_nodes.CAPACITY["memory"])


class Load(NamedTuple):
    """CPU of one node; its memory stands at MEMORY_PERCENT."""

    mean_percent: float
    deviation_percent: float = 0.0


def status(load: Load) -> dict[str, Any]:
    """A report of now."""
    mean, deviation = _resources(load.mean_percent, MEMORY_PERCENT), _resources(load.deviation_percent, 0.0)
    usage = {"avg": {"resources": mean}, "std": {"resources": deviation}}
    windows = [{"duration": window, "usage": usage} for window in WINDOWS]
    return {
        "updateTime": fake_reports.now(),
        "nodeMetric": {"nodeUsage": {"resources": mean}, "aggregatedNodeUsages": windows},
    }


def _resources(cpu_percent: float, memory_percent: float) -> dict[str, str]:
    return {
        "cpu": f"{round(_CPU_MILLIS * cpu_percent / 100)}m",
        "memory": str(round(_MEMORY_BYTES * memory_percent / 100)),
    }
