"""The load that counts: the reported one, the predicted one, or the larger of both (`usageSource`)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from e2e.support import fake_fleet, host_scheduler
from e2e.support.cluster_client import ClusterClient
from e2e.support.host_scheduler import HostScheduler
from e2e.support.scheduling import SchedulingHelper, differing
from tools.localcluster.access import Cluster

SOURCES = ["reported", "predicted", "max"]
LOADS = {
    "idle-for-long": {"cpu_percent": 20, "predicted_percent": 30},
    "idle-for-now": {"cpu_percent": 20, "predicted_percent": 80},
    "busy-for-now": {"cpu_percent": 80, "predicted_percent": 30},
    "unpredicted": {"cpu_percent": 80},
}
HOT = "node(s) cpu usage exceed threshold"
REFUSALS = {
    ("reported", "busy-for-now"): HOT,
    ("predicted", "idle-for-now"): HOT,
    ("max", "idle-for-now"): HOT,
    ("max", "busy-for-now"): HOT,
    # Where nothing is predicted, the report counts.
    **{(source, "unpredicted"): HOT for source in SOURCES},
}


@pytest.fixture(scope="module")
def nodes(cluster_client: ClusterClient, fake_nodes: list[str]) -> Iterator[dict[str, str]]:
    with fake_fleet.registered(cluster_client, list(LOADS)) as names:
        for name, loads in zip(names, LOADS.values(), strict=True):
            fake_fleet.report(cluster_client, name, fake_fleet.load_status(**loads))
        yield dict(zip(LOADS, names, strict=True))


@pytest.fixture(scope="module")
def schedulers(cluster: Cluster, nodes: dict[str, str]) -> Iterator[dict[str, HostScheduler]]:
    values = {source: {"pluginArgs": {"LoadAwareScheduling": {"usageSource": source}}} for source in SOURCES}
    with host_scheduler.running(cluster, values) as started:
        yield started


def test_a_node_is_hot_by_the_configured_source_only(
    scheduling: SchedulingHelper, nodes: dict[str, str], schedulers: dict[str, HostScheduler]
) -> None:
    assert differing(scheduling.matrix(schedulers, nodes), nodes, REFUSALS) == {}
