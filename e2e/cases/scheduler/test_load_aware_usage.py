"""A node is hot by its current usage, by a percentile, or by its Prod pods: each threshold rejects only by its kind."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from e2e.support import fake_fleet, host_scheduler
from e2e.support.cluster_client import ClusterClient
from e2e.support.host_scheduler import HostScheduler
from e2e.support.scheduling import SchedulingHelper, differing
from tools.localcluster.access import Cluster

P95 = {"usageThresholds": {"cpu": 65}, "usageAggregationType": "p95", "usageAggregatedDuration": "5m"}
ARGUMENTS = {
    "instant": {"usageThresholds": {"cpu": 65}},
    "p95": {"aggregated": P95},
    "prod": {"prodUsageThresholds": {"cpu": 40}},
}
HOT_NOW, HOT_BY_P95, HOT_BY_PROD, COOL = NODES = ["hot-now", "hot-by-p95", "hot-by-prod", "cool"]
REFUSALS = {
    ("instant", HOT_NOW): "node(s) cpu usage exceed threshold",
    ("p95", HOT_BY_P95): "node(s) cpu aggregated usage exceed threshold",
    ("prod", HOT_BY_PROD): "node(s) cpu usage exceed threshold",
}
SHOP = "shop"


@pytest.fixture(scope="module")
def nodes(
    cluster_client: ClusterClient, scheduling: SchedulingHelper, fake_nodes: list[str]
) -> Iterator[dict[str, str]]:
    """Return nodes by their kind; each has the Prod pod of a shop, which is busy on one of them only."""
    with fake_fleet.registered(cluster_client, NODES) as names:
        by_kind = dict(zip(NODES, names, strict=True))
        shops = {name: scheduling.submit(f"{SHOP}-{name}", "default-scheduler", [name]) for name in names}
        scheduling.bound(shops.values())
        for kind, loads in {
            HOT_NOW: {"cpu_percent": 80, "p95_percent": 50, "prod_percent": 5},
            HOT_BY_P95: {"cpu_percent": 50, "p95_percent": 80, "prod_percent": 5},
            HOT_BY_PROD: {"cpu_percent": 50, "p95_percent": 50, "prod_percent": 48},
            COOL: {"cpu_percent": 50, "p95_percent": 50, "prod_percent": 5},
        }.items():
            name = by_kind[kind]
            fake_fleet.report(
                cluster_client, name, fake_fleet.load_status(**loads, prod_pod=(scheduling.namespace, shops[name]))
            )
        yield by_kind


@pytest.fixture(scope="module")
def schedulers(cluster: Cluster, nodes: dict[str, str]) -> Iterator[dict[str, HostScheduler]]:
    values = {key: {"pluginArgs": {"LoadAwareScheduling": args}} for key, args in ARGUMENTS.items()}
    with host_scheduler.running(cluster, values) as started:
        yield started


def test_each_kind_of_usage_rejects_exactly_the_nodes_that_are_hot_by_it(
    scheduling: SchedulingHelper, nodes: dict[str, str], schedulers: dict[str, HostScheduler]
) -> None:
    assert differing(scheduling.matrix(schedulers, nodes), nodes, REFUSALS) == {}


def test_the_prod_threshold_applies_to_prod_pods_only(
    scheduling: SchedulingHelper, nodes: dict[str, str], schedulers: dict[str, HostScheduler]
) -> None:
    node = nodes[HOT_BY_PROD]
    scheduling.submit("a-batch-pod", schedulers["prod"].name, [node], priority_class="koord-batch")
    assert scheduling.bound(["a-batch-pod"]) == [node]


def test_pods_with_a_choice_avoid_the_hot_node(
    scheduling: SchedulingHelper, nodes: dict[str, str], schedulers: dict[str, HostScheduler]
) -> None:
    hot = {key: nodes[kind] for key, kind in REFUSALS}
    pods = {
        key: [scheduling.submit(f"chooser-{key}-{i}", schedulers[key].name, [*nodes.values()]) for i in range(4)]
        for key in hot
    }
    for key, names in pods.items():
        chosen = scheduling.bound(names)
        assert hot[key] not in chosen, (key, chosen)


def test_a_node_takes_pods_again_after_a_report_below_the_threshold(
    cluster_client: ClusterClient,
    scheduling: SchedulingHelper,
    nodes: dict[str, str],
    schedulers: dict[str, HostScheduler],
) -> None:
    node = nodes[HOT_NOW]
    assert scheduling.decide("too-early", schedulers["instant"].name, [node]).refusal
    fake_fleet.report(cluster_client, node, fake_fleet.load_status(cpu_percent=50))

    assert scheduling.lands_soon("later", schedulers["instant"].name, node)
