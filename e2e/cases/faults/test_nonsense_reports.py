"""A report with impossible values is refused with a reason, and changes nothing on the node."""

from __future__ import annotations

import datetime as dt
import json
from typing import Any

import pytest
from kubernetes.client.exceptions import ApiException

from e2e.support import fake_fleet, waiting
from e2e.support.cluster_client import ClusterClient
from e2e.support.names import MID_CPU, SUITE_NAMESPACE
from tools.localcluster.access import Cluster
from tools.localcluster.errors import ClusterProblem

REFUSED = "ReportRefused"
HOUR = dt.timedelta(hours=1)
GHOST = "no-such-node"


def _resources(field: str, **quantities: str) -> dict[str, Any]:
    return {field: {"resource": {"resources": quantities}}}


@pytest.mark.parametrize(
    ("nonsense", "named"),
    [
        pytest.param(_resources("prodPeakMetric", cpu="-1"), ["prodPeakMetric", "cpu", "-1"], id="negative peak"),
        pytest.param({"allocated": {"prod": {"memory": "-5Gi"}}}, ["allocated.prod", "-5Gi"], id="negative requests"),
        pytest.param({"allocated": {"mid": {MID_CPU: "-20"}}}, ["allocated.mid", "-20"], id="negative Mid requests"),
    ],
)
def test_a_negative_amount_is_refused_by_the_manager(
    cluster_client: ClusterClient, fake_nodes: list[str], nonsense: dict[str, Any], named: list[str]
) -> None:
    _is_refused(cluster_client, fake_nodes[0], {"updateTime": fake_fleet.now(), **nonsense}, named)


def test_a_sample_of_the_far_future_is_refused_by_the_manager(
    cluster_client: ClusterClient, fake_nodes: list[str]
) -> None:
    _is_refused(
        cluster_client, fake_nodes[0], {"updateTime": fake_fleet.now(ahead=HOUR)}, ["updateTime", "want no later than"]
    )


def _is_refused(cluster_client: ClusterClient, node: str, nonsense: dict[str, Any], named: list[str]) -> None:
    offered = fake_fleet.publish(cluster_client, node)
    sample = cluster_client.mid_status(node)["sample"]
    fake_fleet.report(cluster_client, node, nonsense)
    mid_status = waiting.until(
        f"a mid_status with {REFUSED}", lambda: cluster_client.mid_status(node), lambda seen: seen["reason"] == REFUSED
    )
    assert all(word in mid_status["detail"] for word in named), mid_status
    assert mid_status["sample"] == sample, "the terms are still those of the last good report"
    assert cluster_client.mid(node) == offered
    waiting.until(
        f"an Event {REFUSED} with {named}",
        lambda: cluster_client.events_of(node, "default", REFUSED),
        lambda events: any(all(word in event["message"] for word in named) for event in events),
    )
    # Left as it is, the status would be refused for good: merged patches keep what they do not name.
    cluster_client.patch_status("NodeMetric", node, {"status": {"prodPeakMetric": None, "allocated": None}})
    assert fake_fleet.publish(cluster_client, node) == offered


@pytest.mark.parametrize("text", ["NaN", "Infinity", "1e", "12 apples"])
def test_the_apiserver_refuses_an_invalid_quantity(
    cluster_client: ClusterClient, fake_nodes: list[str], text: str
) -> None:
    node = fake_nodes[0]
    offered = fake_fleet.publish(cluster_client, node)
    before = cluster_client.node_metric(node)["status"]
    with pytest.raises(ApiException) as refused:
        fake_fleet.report(
            cluster_client, node, {"updateTime": fake_fleet.now(), **_resources("prodPeakMetric", cpu=text)}
        )
    assert json.loads(refused.value.body)["reason"] == "Invalid"
    assert "status.prodPeakMetric.resource.resources.cpu" in json.loads(refused.value.body)["message"]
    assert cluster_client.node_metric(node)["status"] == before
    assert cluster_client.mid(node) == offered


def test_an_agent_cannot_report_for_a_missing_node(
    cluster: Cluster, cluster_client: ClusterClient, fake_nodes: list[str]
) -> None:
    body = {"apiVersion": "slo.koordinator.sh/v1alpha1", "kind": "NodeMetric", "metadata": {"name": GHOST}}
    agent = f"--as=system:serviceaccount:{SUITE_NAMESPACE}:koordlet"
    with pytest.raises(ClusterProblem, match=r"(?i)forbidden"):
        cluster.run("create", "--filename=-", agent, stdin=json.dumps(body))


def test_a_report_for_a_missing_node_is_deleted(cluster_client: ClusterClient, fake_nodes: list[str]) -> None:
    offered = [fake_fleet.publish(cluster_client, node) for node in fake_nodes]
    body = {"apiVersion": "slo.koordinator.sh/v1alpha1", "kind": "NodeMetric", "metadata": {"name": GHOST}}
    cluster_client.create("NodeMetric", body)
    waiting.until("it is gone", lambda: cluster_client.find("NodeMetric", GHOST) is None, within_seconds=20)
    assert [cluster_client.mid(node) for node in fake_nodes] == offered
