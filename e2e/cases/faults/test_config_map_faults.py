"""The ConfigMap is broken, deleted and restored, and the manager restarts in each state.

The last good configuration stays in force with a broken one and without one, also over a restart.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from e2e.support import fake_fleet, manager_faults, slo_config, waiting
from e2e.support.cluster_client import ClusterClient
from e2e.support.installation import Suite
from e2e.support.names import CONFIG_MAP, SUITE_NAMESPACE
from e2e.support.slo_config import KEY

SHARE_PERCENT = 30
BROKEN = '{"enable": true, "midUnallocatedPercent": 30, "degradeTimeMinutes": "soon"}'
NAMED = ("degradeTimeMinutes", "soon")


@pytest.fixture(scope="module")
def good(cluster_client: ClusterClient, fake_nodes: list[str]) -> Iterator[dict[str, Any]]:
    """Return the ConfigMap, with a configuration of this test in force."""
    slo_config.write(cluster_client, slo_config.changed(midUnallocatedPercent=SHARE_PERCENT))
    _wait_share(cluster_client, fake_nodes[0], SHARE_PERCENT)
    found = cluster_client.get("ConfigMap", CONFIG_MAP, SUITE_NAMESPACE)
    yield found
    if cluster_client.find("ConfigMap", CONFIG_MAP, SUITE_NAMESPACE) is None:
        _create(cluster_client, found)
    slo_config.write(cluster_client, slo_config.BASE)


def _create(cluster_client: ClusterClient, config_map: dict[str, Any]) -> None:
    kept = {key: config_map["metadata"].get(key) for key in ("name", "labels", "annotations")}
    cluster_client.create("ConfigMap", {**config_map, "metadata": kept}, SUITE_NAMESPACE)


def _wait_share(cluster_client: ClusterClient, node: str, percent: int) -> None:
    waiting.until(
        f"{percent} % of the unallocated in the spec",
        lambda: cluster_client.node_metric(node)["spec"]["midColocationPolicy"],
        lambda seen: seen.get("midUnallocatedPercent", 0) == percent,
        within_seconds=20,
    )


def test_a_broken_one_is_reported_with_path_value_and_expected_range(
    cluster_client: ClusterClient, fake_nodes: list[str], good: dict[str, Any]
) -> None:
    node = fake_nodes[0]
    offered = fake_fleet.publish(cluster_client, node)
    spec = cluster_client.node_metric(node)["spec"]
    slo_config.write(cluster_client, BROKEN)
    warnings = waiting.until(
        f"an Event that names {NAMED}",
        lambda: [
            each["message"]
            for each in cluster_client.events_of(CONFIG_MAP, SUITE_NAMESPACE)
            if each["type"] == "Warning"
        ],
        lambda messages: any(all(word in message for word in NAMED) for message in messages),
    )
    (message, *_) = [each for each in warnings if all(word in each for word in NAMED)]
    assert KEY in message
    assert "want" in message
    assert cluster_client.node_metric(node)["spec"] == spec
    assert cluster_client.mid(node) == offered


def test_the_last_good_one_stays_in_force_over_a_restart_of_the_manager(
    cluster_client: ClusterClient, suite: Suite, fake_nodes: list[str], good: dict[str, Any]
) -> None:
    node = fake_nodes[0]
    spec = cluster_client.node_metric(node)["spec"]
    manager_faults.restart(cluster_client, suite)
    # By the formula of the spec, which is still that of the last good one.
    fake_fleet.publish(cluster_client, node)
    assert cluster_client.node_metric(node)["spec"] == spec
    assert spec["midColocationPolicy"]["midUnallocatedPercent"] == SHARE_PERCENT


def test_a_deleted_one_is_reported_and_changes_nothing_also_over_a_restart(
    cluster_client: ClusterClient, suite: Suite, fake_nodes: list[str], good: dict[str, Any]
) -> None:
    node = fake_nodes[0]
    spec, offered = cluster_client.node_metric(node)["spec"], cluster_client.mid(node)
    cluster_client.delete("ConfigMap", CONFIG_MAP, SUITE_NAMESPACE)
    waiting.until(
        "an Event about the absence",
        lambda: [each["reason"] for each in cluster_client.events_of(CONFIG_MAP, SUITE_NAMESPACE)],
        lambda reasons: "ColocationConfigAbsent" in reasons,
        within_seconds=30,
    )
    manager_faults.restart(cluster_client, suite)
    # A NodeMetric that the new leader has put right shows that it has read its configuration.
    cluster_client.patch("NodeMetric", node, {"spec": {"metricCollectPolicy": {"reportIntervalSeconds": 77}}})
    waiting.until(
        "the hand edit is put right",
        lambda: cluster_client.node_metric(node)["spec"],
        lambda seen: seen == spec,
        within_seconds=30,
    )
    assert cluster_client.mid(node) == offered


def test_with_a_restored_one_mid_is_published_again(
    cluster_client: ClusterClient, fake_nodes: list[str], good: dict[str, Any]
) -> None:
    _create(cluster_client, good)
    _wait_share(cluster_client, fake_nodes[0], SHARE_PERCENT)
    fake_fleet.publish(cluster_client, fake_nodes[0])
