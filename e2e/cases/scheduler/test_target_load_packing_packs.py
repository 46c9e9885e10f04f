"""TargetLoadPacking packs as the chart installs it: with the weights and scores of its profile.

Half of the nodes have some load, and a pod that requests most of their memory. The plugin prefers them until their CPU
reaches the target. Scores that prefer nodes with few requests, as kube-scheduler's own do, would use the idle nodes.
"""

from __future__ import annotations

import collections
from collections.abc import Iterator

import pytest

from e2e.support import fake_fleet, host_scheduler, workloads
from e2e.support.cluster_client import ClusterClient
from e2e.support.fake_fleet import CPU_MILLIS, WindowLoad
from e2e.support.host_scheduler import HostScheduler
from e2e.support.installation import Suite
from e2e.support.scheduling import SchedulingHelper
from tools.localcluster.access import Cluster

POLICY = "TargetLoadPacking"
BUSY, IDLE = 3, 3
TARGET_PERCENT = 40
BUSY_PERCENT, IDLE_PERCENT = 10, 1
RESIDENT = {"cpu": "10m", "memory": f"{fake_fleet.MEMORY_MIB * 7 // 10}Mi"}
POD_MILLIS, MULTIPLIER = 1000, 1.5
PODS_EACH = int((TARGET_PERCENT - BUSY_PERCENT) / 100 * CPU_MILLIS / (POD_MILLIS * MULTIPLIER))
"""Pods that a busy node takes without exceeding the target."""


@pytest.fixture(scope="module")
def nodes(cluster_client: ClusterClient, fake_nodes: list[str]) -> Iterator[list[str]]:
    """Yield the nodes, the busy ones first."""
    with fake_fleet.registered(cluster_client, [f"pack-{number}" for number in range(BUSY + IDLE)]) as names:
        for number, name in enumerate(names):
            load = WindowLoad(BUSY_PERCENT if number < BUSY else IDLE_PERCENT)
            fake_fleet.report(cluster_client, name, fake_fleet.window_status(load))
        yield names


@pytest.fixture(scope="module")
def scheduler(cluster: Cluster, nodes: list[str]) -> Iterator[HostScheduler]:
    scores = {"enabled": [{"name": POLICY}], "disabled": [{"name": "LoadAwareScheduling"}]}
    values = {"plugins": {"score": scores}, "pluginArgs": {POLICY: {"targetUtilization": TARGET_PERCENT}}}
    made = HostScheduler(cluster, "case-packing", values)
    with host_scheduler.started(made):
        yield made


def test_it_fills_the_busy_nodes_up_to_the_target(
    scheduling: SchedulingHelper, scheduler: HostScheduler, nodes: list[str], suite: Suite
) -> None:
    residents = [f"resident-{number}" for number in range(BUSY)]
    for name, node in zip(residents, nodes, strict=False):
        pod = workloads.pod(name, suite.workload, requests=RESIDENT, scheduler=scheduler.name, nodes=[node])
        scheduling.cluster_client.create("Pod", pod, scheduling.namespace)
    scheduling.bound(residents)
    pods: list[str] = []
    for number in range(BUSY * PODS_EACH):
        pods.append(scheduling.submit(f"packed-{number}", scheduler.name, nodes, cpu=f"{POD_MILLIS}m"))
        scheduling.bound(pods[-1:])
    used = collections.Counter(scheduling.bound(pods))
    assert used == dict.fromkeys(nodes[:BUSY], PODS_EACH)
    scheduling.dismiss(*pods, *residents)
