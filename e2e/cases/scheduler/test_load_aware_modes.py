"""A cluster that is hot everywhere: pods wait under `mode: hard` and run under `mode: soft`; DaemonSets run anyway."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from e2e.support import daemonsets, fake_fleet, host_scheduler
from e2e.support.cluster_client import ClusterClient
from e2e.support.host_scheduler import HostScheduler
from e2e.support.scheduling import SchedulingHelper
from tools.localcluster.access import Cluster

HOT_PERCENT, COOL_PERCENT = 80, 30  # the chart's threshold is 65
HOT = "node(s) cpu usage exceed threshold"


@pytest.fixture(scope="module")
def nodes(cluster_client: ClusterClient, fake_nodes: list[str]) -> Iterator[list[str]]:
    with fake_fleet.registered(cluster_client, ["furnace-0", "furnace-1", "furnace-2"]) as names:
        for name in names:
            fake_fleet.report(cluster_client, name, fake_fleet.load_status(cpu_percent=HOT_PERCENT))
        yield names


@pytest.fixture(scope="module")
def schedulers(cluster: Cluster, nodes: list[str]) -> Iterator[dict[str, HostScheduler]]:
    values = {mode: {"pluginArgs": {"LoadAwareScheduling": {"mode": mode}}} for mode in ("hard", "soft")}
    with host_scheduler.running(cluster, values) as started:
        yield started


def test_on_hot_nodes_pods_wait_in_hard_mode_and_run_in_soft_mode(
    scheduling: SchedulingHelper, nodes: list[str], schedulers: dict[str, HostScheduler]
) -> None:
    assert f"3 {HOT}" in (scheduling.decide("hard", schedulers["hard"].name, nodes).refusal or "")
    pods = [scheduling.submit(f"soft-{index}", schedulers["soft"].name, nodes) for index in range(6)]
    assert set(scheduling.bound(pods)) <= set(nodes)


def test_pods_of_a_daemon_set_run_on_hot_nodes(
    scheduling: SchedulingHelper, nodes: list[str], schedulers: dict[str, HostScheduler]
) -> None:
    hard = schedulers["hard"].name
    assert daemonsets.placed(scheduling, "one-on-each", hard, nodes) == nodes
    assert HOT in (scheduling.decide("without-owner", hard, nodes[:1]).refusal or "")


def test_soft_prefers_a_node_that_has_cooled_down(
    cluster_client: ClusterClient, scheduling: SchedulingHelper, nodes: list[str], schedulers: dict[str, HostScheduler]
) -> None:
    *_, cooled = nodes
    fake_fleet.report(cluster_client, cooled, fake_fleet.load_status(cpu_percent=COOL_PERCENT))
    assert scheduling.lands_soon("cooled-down", schedulers["hard"].name, cooled)
    pods = [scheduling.submit(f"prefers-{index}", schedulers["soft"].name, nodes) for index in range(4)]
    assert scheduling.bound(pods) == [cooled] * 4
