"""Fake nodes of one case, and their NodeMetric reports, written in place of an agent.

Three shapes of report: the usage of Prod pods for the Mid formula, the load that LoadAware reads, and the windows that
the Trimaran plugins read.
"""

from __future__ import annotations

import contextlib
import datetime as dt
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from e2e.support import mid_formula, waiting
from e2e.support.cluster_client import ClusterClient, cpu_millis, units
from e2e.support.names import MID_CPU, MID_MEMORY
from tools.localcluster import fake_nodes

CPU_MILLIS = cpu_millis(fake_nodes.ALLOCATABLE["cpu"])
MEMORY_MIB = units(fake_nodes.ALLOCATABLE["memory"]) // 2**20
MEMORY_PERCENT = 20
LOAD_WINDOW = "5m0s"
WINDOWS = ("5m0s", "10m0s", "15m0s")
_CAPACITY_CPU_MILLIS = cpu_millis(fake_nodes.CAPACITY["cpu"])
_CAPACITY_MEMORY_BYTES = units(fake_nodes.CAPACITY["memory"])


@contextlib.contextmanager
def registered(cluster_client: ClusterClient, names: Sequence[str]) -> Iterator[list[str]]:
    """Register nodes `fake-<name>`, wait until the manager has created their NodeMetrics, and delete them at the end.

    The heartbeats of all fake nodes, which must be running, renew their Leases.
    """
    made = [f"{fake_nodes.PREFIX}{name}" for name in names]
    for name in made:
        node = fake_nodes.node(0, dt.datetime.now(dt.UTC))
        node["metadata"]["name"] = node["metadata"]["labels"]["kubernetes.io/hostname"] = name
        cluster_client.create("Node", node)
    try:
        waiting.until(
            "the manager creates their NodeMetrics",
            lambda: [name for name in made if cluster_client.find("NodeMetric", name) is None],
            lambda missing: not missing,
        )
        yield made
    finally:
        for name in made:
            cluster_client.delete("Node", name)


def report(cluster_client: ClusterClient, node: str, status: dict[str, Any]) -> None:
    """Write a report, once the manager has created the node's NodeMetric."""
    waiting.until(f"the manager creates a NodeMetric for {node}", lambda: cluster_client.find("NodeMetric", node))
    cluster_client.patch_status("NodeMetric", node, {"status": status})


def publish(cluster_client: ClusterClient, node: str) -> tuple[int, int]:
    """Report a node with half of its requests idle, and return the published Mid: milli-cores and bytes."""
    sound = prod_status(cpu_millis=3000, memory_mib=8 * 1024, prod_cpu_millis=6000, prod_memory_mib=24 * 1024)
    report(cluster_client, node, sound)
    return mid_formula.wait_published(cluster_client, node, within_seconds=20).offered


def now(*, ahead: dt.timedelta = dt.timedelta(0)) -> str:
    """Return the current time in the format of an agent."""
    return (dt.datetime.now(dt.UTC) + ahead).strftime("%Y-%m-%dT%H:%M:%SZ")


def prod_status(
    *, cpu_millis: int, memory_mib: int, prod_cpu_millis: int = 0, prod_memory_mib: int = 0
) -> dict[str, Any]:
    """Return a report of now with this usage, which is also the predicted peak of Prod pods with these requests."""
    usage = {"cpu": f"{cpu_millis}m", "memory": f"{memory_mib}Mi"}
    prod = {"cpu": f"{prod_cpu_millis}m", "memory": f"{prod_memory_mib}Mi"}
    return {
        "updateTime": now(),
        "nodeMetric": {"nodeUsage": {"resources": usage}, "systemUsage": {"resources": {"cpu": "0", "memory": "0"}}},
        "prodPeakMetric": {"resource": {"resources": usage}},
        "allocated": {"prod": prod, "mid": {MID_CPU: "0", MID_MEMORY: "0"}},
    }


def load_status(
    *,
    cpu_percent: float,
    p95_percent: float | None = None,
    predicted_percent: float | None = None,
    prod_percent: float | None = None,
    prod_pod: tuple[str, str] | None = None,
    age: dt.timedelta = dt.timedelta(0),
) -> dict[str, Any]:
    """Return a report with CPU in percent of what a fake node can allocate, and memory at MEMORY_PERCENT.

    p95 is over 5 minutes; `predicted` is the peak of the whole node; `prod` is the usage of one Prod pod, `prod_pod`
    (namespace and name). `age` is that of the sample.
    """
    usage: dict[str, Any] = {"nodeUsage": {"resources": _allocatable_share(cpu_percent)}}
    if p95_percent is not None:
        p50, p95 = _allocatable_share(cpu_percent), _allocatable_share(p95_percent)
        statistics = {"p50": {"resources": p50}, "p95": {"resources": p95}}
        usage["aggregatedNodeUsages"] = [{"duration": LOAD_WINDOW, "usage": statistics}]
    status: dict[str, Any] = {"updateTime": now(ahead=-age), "nodeMetric": usage}
    if prod_pod is not None and prod_percent is not None:
        namespace, name = prod_pod
        of_pod = {"resources": _allocatable_share(prod_percent, memory_percent=1)}
        status["podsMetric"] = [{"namespace": namespace, "name": name, "priority": "koord-prod", "podUsage": of_pod}]
    if predicted_percent is not None:
        status["prediction"] = _node_prediction(_allocatable_share(predicted_percent), status["updateTime"])
    return status


class WindowLoad(NamedTuple):
    """CPU of one node in its windows, in percent of its capacity; memory is at MEMORY_PERCENT."""

    mean_percent: float
    deviation_percent: float = 0.0


def window_status(load: WindowLoad) -> dict[str, Any]:
    """Return a report of now with mean and deviation over the windows that the Trimaran plugins read."""
    mean, deviation = _capacity_share(load.mean_percent, MEMORY_PERCENT), _capacity_share(load.deviation_percent, 0)
    usage = {"avg": {"resources": mean}, "std": {"resources": deviation}}
    windows = [{"duration": window, "usage": usage} for window in WINDOWS]
    return {"updateTime": now(), "nodeMetric": {"nodeUsage": {"resources": mean}, "aggregatedNodeUsages": windows}}


def _node_prediction(peak: dict[str, str], time: str) -> dict[str, Any]:
    """Return a prediction with this peak of the whole node and none of its Prod pods."""
    nothing = {"cpu": "0", "memory": "0"}
    return {
        "predictor": "n-sigma-v2",
        "parameters": {},
        "time": time,
        "warmPods": 0,
        "coldPods": 0,
        "node": {"mean": peak, "stdev": nothing, "peak": peak},
        "prod": {"peak": nothing},
    }


def _allocatable_share(cpu_percent: float, memory_percent: float = MEMORY_PERCENT) -> dict[str, str]:
    return {
        "cpu": f"{round(CPU_MILLIS * cpu_percent / 100)}m",
        "memory": f"{round(MEMORY_MIB * memory_percent / 100)}Mi",
    }


def _capacity_share(cpu_percent: float, memory_percent: float) -> dict[str, str]:
    return {
        "cpu": f"{round(_CAPACITY_CPU_MILLIS * cpu_percent / 100)}m",
        "memory": str(round(_CAPACITY_MEMORY_BYTES * memory_percent / 100)),
    }
