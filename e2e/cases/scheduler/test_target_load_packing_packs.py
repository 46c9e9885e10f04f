"""TargetLoadPacking packs as the chart installs it: with the weights and scores of its profile.

A pod counts 1.5 cores, so an idle node of 16 cores takes four before the fifth would bring it above 40 %. Scores that
prefer empty nodes, as kube-scheduler's own do, would use every node.
"""

from __future__ import annotations

import collections
from collections.abc import Iterator

import pytest

from e2e.support import fake_fleet, host_scheduler
from e2e.support.cluster_client import ClusterClient
from e2e.support.fake_fleet import CPU_MILLIS, WindowLoad
from e2e.support.host_scheduler import HostScheduler
from e2e.support.scheduling import SchedulingHelper
from tools.localcluster.access import Cluster

POLICY = "TargetLoadPacking"
NODES = 6
TARGET_PERCENT = 40
IDLE_PERCENT = 1
POD_MILLIS, MULTIPLIER = 1000, 1.5
PODS_EACH = int((TARGET_PERCENT - IDLE_PERCENT) / 100 * CPU_MILLIS / (POD_MILLIS * MULTIPLIER))
"""Pods that a node takes without exceeding the target."""


@pytest.fixture(scope="module")
def nodes(cluster_client: ClusterClient, fake_nodes: list[str]) -> Iterator[list[str]]:
    with fake_fleet.registered(cluster_client, [f"pack-{number}" for number in range(NODES)]) as names:
        for name in names:
            fake_fleet.report(cluster_client, name, fake_fleet.window_status(WindowLoad(IDLE_PERCENT)))
        yield names


@pytest.fixture(scope="module")
def scheduler(cluster: Cluster, nodes: list[str]) -> Iterator[HostScheduler]:
    scores = {"enabled": [{"name": POLICY}], "disabled": [{"name": "LoadAwareScheduling"}]}
    values = {"plugins": {"score": scores}, "pluginArgs": {POLICY: {"targetUtilization": TARGET_PERCENT}}}
    made = HostScheduler(cluster, "case-packing", values)
    with host_scheduler.started(made):
        yield made


def test_it_uses_as_few_nodes_as_the_target_allows(
    scheduling: SchedulingHelper, scheduler: HostScheduler, nodes: list[str]
) -> None:
    pods: list[str] = []
    for number in range(3 * PODS_EACH):
        pods.append(scheduling.submit(f"packed-{number}", scheduler.name, nodes, cpu=f"{POD_MILLIS}m"))
        scheduling.bound(pods[-1:])
    used = collections.Counter(scheduling.bound(pods))
    assert sorted(used.values()) == [PODS_EACH] * 3
    scheduling.dismiss(*pods)
