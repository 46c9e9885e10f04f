"""NodeMetric reports of fake nodes, written by the stories in place of an agent."""

from __future__ import annotations

import datetime as dt
from typing import Any

from e2e.support import mid_formula, waiting
from e2e.support.cluster_client import MID_CPU, MID_MEMORY, ClusterClient


def now(*, ahead: dt.timedelta = dt.timedelta(0)) -> str:
    """This moment as an agent spells it."""
    return (dt.datetime.now(dt.UTC) + ahead).strftime("%Y-%m-%dT%H:%M:%SZ")


def status(*, cpu_millis: int, memory_mib: int, prod_cpu_millis: int = 0, prod_memory_mib: int = 0) -> dict[str, Any]:
    """A report of now: this usage, all of it by Prod pods that request so much, and predicted to peak there."""
    usage = {"cpu": f"{cpu_millis}m", "memory": f"{memory_mib}Mi"}
    prod = {"cpu": f"{prod_cpu_millis}m", "memory": f"{prod_memory_mib}Mi"}
    return {
        "updateTime": now(),
        "nodeMetric": {"nodeUsage": {"resources": usage}, "systemUsage": {"resources": {"cpu": "0", "memory": "0"}}},
        "prodPeakMetric": {"resource": {"resources": usage}},
        "allocated": {"prod": prod, "mid": {MID_CPU: "0", MID_MEMORY: "0"}},
    }


def report(eyes: ClusterClient, node: str, reported: dict[str, Any]) -> None:
    """Write a report, once the manager has made the node's NodeMetric."""
    waiting.until(f"the manager makes a NodeMetric for {node}", lambda: eyes.find("NodeMetric", node))
    eyes.patch_status("NodeMetric", node, {"status": reported})


def publish(eyes: ClusterClient, node: str) -> tuple[int, int]:
    """Report a node half of whose requests lie idle, and wait for the Mid that follows: milli-cores and bytes."""
    sound = status(cpu_millis=3000, memory_mib=8 * 1024, prod_cpu_millis=6000, prod_memory_mib=24 * 1024)
    report(eyes, node, sound)
    return mid_formula.wait_published(eyes, node, within_seconds=20).offered
