"""A node with a stale report takes no pods, takes any, or is evaluated by its last report (`onStale`)."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator

import pytest

from e2e.support import fake_fleet, host_scheduler
from e2e.support.cluster_client import ClusterClient
from e2e.support.host_scheduler import HostScheduler
from e2e.support.scheduling import SchedulingHelper, differing
from tools.localcluster.access import Cluster

CHOICES = ["reject", "pass", "use"]
HOT_PERCENT, COOL_PERCENT = 80, 30  # the chart's threshold is 65
FRESH, STALE = dt.timedelta(0), dt.timedelta(minutes=10)  # a report is too old after 3
LOADS = {
    "fresh-cool": (COOL_PERCENT, FRESH),
    "fresh-hot": (HOT_PERCENT, FRESH),
    "stale-cool": (COOL_PERCENT, STALE),
    "stale-hot": (HOT_PERCENT, STALE),
}
OTHERS = [f"other-{index}" for index in range(5)]
"""Nodes with a fresh report: expired reports pass where they are more than half."""
EXPIRED, HOT = "node(s) nodeMetric expired", "node(s) cpu usage exceed threshold"
REFUSALS = {
    **{(choice, "fresh-hot"): HOT for choice in CHOICES},
    ("reject", "stale-cool"): EXPIRED,
    ("reject", "stale-hot"): EXPIRED,
    ("use", "stale-hot"): HOT,
}


@pytest.fixture(scope="module")
def nodes(cluster_client: ClusterClient, fake_nodes: list[str]) -> Iterator[dict[str, str]]:
    loads = LOADS | dict.fromkeys(OTHERS, (COOL_PERCENT, FRESH))
    with fake_fleet.registered(cluster_client, list(loads)) as names:
        for name, (cpu_percent, age) in zip(names, loads.values(), strict=True):
            fake_fleet.report(cluster_client, name, fake_fleet.load_status(cpu_percent=cpu_percent, age=age))
        yield {load: name for load, name in zip(loads, names, strict=True) if load in LOADS}


@pytest.fixture(scope="module")
def schedulers(cluster: Cluster, nodes: dict[str, str]) -> Iterator[dict[str, HostScheduler]]:
    values = {choice: {"pluginArgs": {"LoadAwareScheduling": {"onStale": choice}}} for choice in CHOICES}
    with host_scheduler.running(cluster, values) as started:
        yield started


def test_a_stale_report_counts_as_configured_and_a_fresh_one_always(
    scheduling: SchedulingHelper, nodes: dict[str, str], schedulers: dict[str, HostScheduler]
) -> None:
    assert differing(scheduling.matrix(schedulers, nodes), nodes, REFUSALS) == {}


def test_a_stale_node_that_passes_is_chosen_last(
    scheduling: SchedulingHelper, nodes: dict[str, str], schedulers: dict[str, HostScheduler]
) -> None:
    either = [nodes["fresh-cool"], nodes["stale-cool"]]
    pods = [scheduling.submit(f"chooser-{index}", schedulers["pass"].name, either) for index in range(4)]
    assert scheduling.bound(pods) == [nodes["fresh-cool"]] * 4


def test_the_first_new_report_ends_it(
    cluster_client: ClusterClient,
    scheduling: SchedulingHelper,
    nodes: dict[str, str],
    schedulers: dict[str, HostScheduler],
) -> None:
    node = nodes["stale-cool"]
    fake_fleet.report(cluster_client, node, fake_fleet.load_status(cpu_percent=COOL_PERCENT))
    assert scheduling.lands_soon("again", schedulers["reject"].name, node)
