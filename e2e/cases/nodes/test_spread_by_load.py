"""A node becomes busy by a pod that requests little: new pods go to the others, and to it again when it is idle."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest

from e2e.support import node_thresholds, waiting, workloads
from e2e.support.cluster_client import ClusterClient, cpu_millis
from e2e.support.installation import Suite
from e2e.support.scheduling import SchedulingHelper
from e2e.support.workloads import SCHEDULER

pytestmark = pytest.mark.long
PODS = 6
CORES, MORE_MILLIS = "1.2", 600
REPORTED_SECONDS = 150
"""A whole window of 60 s, a report every 30 s, and the start of the pod."""


@pytest.fixture(scope="module")
def node(cluster_client: ClusterClient, three: list[str]) -> Iterator[str]:
    yield three[1]
    node_thresholds.set_threshold(cluster_client, three[1], node_thresholds.NEVER_HOT)


def _used(cluster_client: ClusterClient, node: str) -> int:
    """Return the reported CPU usage of a node in milli-cores."""
    return cpu_millis(cluster_client.node_metric(node)["status"]["nodeMetric"]["nodeUsage"]["resources"]["cpu"])


def _show(cluster_client: ClusterClient, nodes: list[str], when: str, chosen: list[str]) -> None:
    used = ", ".join(f"{name} uses {_used(cluster_client, name)}m" for name in nodes)
    print(f"{when}: {used}; {len(chosen)} pods went to {dict(sorted(Counter(chosen).items()))}")


def test_new_pods_avoid_the_busy_node_and_return_when_it_is_idle(
    cluster_client: ClusterClient, suite: Suite, scheduling: SchedulingHelper, three: list[str], node: str
) -> None:
    def place(when: str) -> list[str]:
        names = [scheduling.submit(f"{when}-{index}", SCHEDULER, three) for index in range(PODS)]
        chosen = scheduling.bound(names)
        _show(cluster_client, three, when, chosen)
        return chosen

    idle = _used(cluster_client, node)
    place("before")
    burner = workloads.pod(
        "burner", suite.workload, *workloads.load(cores=CORES), requests={"cpu": "10m"}, nodes=[node]
    )
    cluster_client.create("Pod", burner, scheduling.namespace)
    busy = waiting.until(
        f"{node} reports the load", lambda: _used(cluster_client, node), lambda seen: seen > idle + MORE_MILLIS,
        within_seconds=REPORTED_SECONDS,
    )  # fmt: skip
    allocatable = cpu_millis(cluster_client.get("Node", node)["status"]["allocatable"]["cpu"])
    node_thresholds.set_threshold(cluster_client, node, 100 * (idle + busy) // 2 // allocatable)
    assert scheduling.is_refused_soon("only-there", SCHEDULER, node, "node(s) cpu usage exceed threshold")
    assert node not in place("busy")

    scheduling.dismiss("burner")
    waiting.until(
        f"{node} reports no load", lambda: _used(cluster_client, node), lambda seen: seen < (idle + busy) // 2 - 200,
        within_seconds=REPORTED_SECONDS,
    )  # fmt: skip
    assert scheduling.lands_soon("back", SCHEDULER, node)
    assert node in place("idle")
