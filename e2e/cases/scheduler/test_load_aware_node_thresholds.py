"""A node has its own thresholds, by annotation: higher, lower, none, of another kind, or invalid."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

import pytest

from e2e.support import fake_fleet, host_scheduler, node_thresholds
from e2e.support.cluster_client import ClusterClient
from e2e.support.host_scheduler import HostScheduler
from e2e.support.names import THRESHOLDS_ANNOTATION
from e2e.support.scheduling import SchedulingHelper
from tools.localcluster.access import Cluster

HOT_PERCENT, COOL_PERCENT = 80, 50  # the chart's threshold is 65
HOT = "node(s) cpu usage exceed threshold"
HOT_BY_P95 = "node(s) cpu aggregated usage exceed threshold"

Annotate = Callable[[str, dict], None]


@pytest.fixture(scope="module")
def nodes(cluster_client: ClusterClient, fake_nodes: list[str]) -> Iterator[dict[str, str]]:
    loads = {
        "hot": {"cpu_percent": HOT_PERCENT, "p95_percent": COOL_PERCENT},
        "cool": {"cpu_percent": COOL_PERCENT, "p95_percent": HOT_PERCENT},
    }
    with fake_fleet.registered(cluster_client, [f"own-{kind}" for kind in loads]) as names:
        for name, each in zip(names, loads.values(), strict=True):
            fake_fleet.report(cluster_client, name, fake_fleet.load_status(**each))
        yield dict(zip(loads, names, strict=True))


@pytest.fixture(scope="module")
def scheduler(cluster: Cluster, nodes: dict[str, str]) -> Iterator[HostScheduler]:
    with host_scheduler.running(cluster, {"chart-thresholds": {}}) as started:
        yield started["chart-thresholds"]


@pytest.fixture
def annotate(cluster_client: ClusterClient, nodes: dict[str, str]) -> Iterator[Annotate]:
    """Give a node thresholds of its own until the end of the test."""
    yield lambda kind, own: cluster_client.patch(
        "Node", nodes[kind], {"metadata": {"annotations": {THRESHOLDS_ANNOTATION: json.dumps(own)}}}
    )
    for name in nodes.values():
        node_thresholds.set_threshold(cluster_client, name, None)


@pytest.mark.parametrize(
    ("case", "own"),
    [
        ("higher", {"usageThresholds": {"cpu": 90}}),
        ("none", {"usageThresholds": {"cpu": 0}}),
        ("of-prod", {"prodUsageThresholds": {"cpu": 90}}),
        ("of-p95", {"aggregatedUsage": {"usageThresholds": {"cpu": 65}, "usageAggregationType": "p95"}}),
    ],
)
def test_a_hot_node_takes_pods_below_its_own_thresholds(
    annotate: Annotate,
    scheduling: SchedulingHelper,
    nodes: dict[str, str],
    scheduler: HostScheduler,
    case: str,
    own: dict,
) -> None:
    assert scheduling.is_refused_soon(f"before-{case}", scheduler.name, nodes["hot"], HOT)
    annotate("hot", own)
    assert scheduling.lands_soon(f"with-{case}", scheduler.name, nodes["hot"])


@pytest.mark.parametrize(
    ("case", "own", "why"),
    [
        ("lower", {"usageThresholds": {"cpu": 40}}, HOT),
        (
            "by-p95",
            {"aggregatedUsage": {"usageThresholds": {"cpu": 65}, "usageAggregationType": "p95"}},
            HOT_BY_P95,
        ),
    ],
)
def test_a_cool_node_takes_no_pods_above_its_own_thresholds(
    annotate: Annotate,
    scheduling: SchedulingHelper,
    nodes: dict[str, str],
    scheduler: HostScheduler,
    case: str,
    own: dict,
    why: str,
) -> None:
    assert scheduling.lands_soon(f"before-{case}", scheduler.name, nodes["cool"])
    annotate("cool", own)
    assert scheduling.is_refused_soon(f"with-{case}", scheduler.name, nodes["cool"], why)


def test_nonsense_changes_nothing(
    annotate: Annotate, scheduling: SchedulingHelper, nodes: dict[str, str], scheduler: HostScheduler
) -> None:
    annotate("hot", {"usageThresholds": {"cpu": "90"}})
    annotate("cool", {"usageThresholds": {"cpu": 40}})
    assert scheduling.is_refused_soon("the-later-change", scheduler.name, nodes["cool"], HOT), "so both have been seen"
    assert HOT in (scheduling.decide("nonsense", scheduler.name, [nodes["hot"]]).refusal or "")
