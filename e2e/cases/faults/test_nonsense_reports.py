"""A report that holds what cannot be is refused with its reason, and takes nothing from the node."""

from __future__ import annotations

import datetime as dt
import json
from typing import Any

import pytest
from kubernetes.client.exceptions import ApiException

from e2e.support import fake_reports, waiting
from e2e.support.cluster_client import MID_CPU, SUITE_NAMESPACE, ClusterClient
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
    eyes: ClusterClient, fake_nodes: list[str], nonsense: dict[str, Any], named: list[str]
) -> None:
    _is_refused(eyes, fake_nodes[0], {"updateTime": fake_reports.now(), **nonsense}, named)


def test_a_sample_of_the_far_future_is_refused_by_the_manager(eyes: ClusterClient, fake_nodes: list[str]) -> None:
    _is_refused(eyes, fake_nodes[0], {"updateTime": fake_reports.now(ahead=HOUR)}, ["updateTime", "want no later than"])


def _is_refused(eyes: ClusterClient, node: str, nonsense: dict[str, Any], named: list[str]) -> None:
    offered = fake_reports.publish(eyes, node)
    sample = eyes.receipt(node)["sample"]
    fake_reports.report(eyes, node, nonsense)
    receipt = waiting.until(
        f"a receipt with {REFUSED}", lambda: eyes.receipt(node), lambda seen: seen["reason"] == REFUSED
    )
    assert all(word in receipt["detail"] for word in named), receipt
    assert receipt["sample"] == sample, "the terms are still those of the last good report"
    assert eyes.mid(node) == offered
    events = waiting.until(f"an Event {REFUSED}", lambda: eyes.events_of(node, "default", REFUSED))
    assert any(all(word in each["message"] for word in named) for each in events), events
    # Left as it is, the status would be refused for good: merged patches keep what they do not name.
    eyes.patch_status("NodeMetric", node, {"status": {"prodPeakMetric": None, "allocated": None}})
    assert fake_reports.publish(eyes, node) == offered


@pytest.mark.parametrize("text", ["NaN", "Infinity", "1e", "12 apples"])
def test_what_is_no_quantity_does_not_get_past_the_apiserver(
    eyes: ClusterClient, fake_nodes: list[str], text: str
) -> None:
    node = fake_nodes[0]
    offered = fake_reports.publish(eyes, node)
    before = eyes.node_metric(node)["status"]
    with pytest.raises(ApiException) as refused:
        fake_reports.report(eyes, node, {"updateTime": fake_reports.now(), **_resources("prodPeakMetric", cpu=text)})
    assert json.loads(refused.value.body)["reason"] == "Invalid"
    assert "status.prodPeakMetric.resource.resources.cpu" in json.loads(refused.value.body)["message"]
    assert eyes.node_metric(node)["status"] == before
    assert eyes.mid(node) == offered


def test_an_agent_cannot_report_in_the_name_of_no_node(
    cluster: Cluster, eyes: ClusterClient, fake_nodes: list[str]
) -> None:
    body = {"apiVersion": "slo.koordinator.sh/v1alpha1", "kind": "NodeMetric", "metadata": {"name": GHOST}}
    agent = f"--as=system:serviceaccount:{SUITE_NAMESPACE}:koordlet"
    with pytest.raises(ClusterProblem, match=r"(?i)forbidden"):
        cluster.run("create", "--filename=-", agent, stdin=json.dumps(body))


def test_a_report_in_the_name_of_no_node_is_taken_away(eyes: ClusterClient, fake_nodes: list[str]) -> None:
    offered = [fake_reports.publish(eyes, node) for node in fake_nodes]
    body = {"apiVersion": "slo.koordinator.sh/v1alpha1", "kind": "NodeMetric", "metadata": {"name": GHOST}}
    eyes.create("NodeMetric", body)
    waiting.until("it is gone", lambda: eyes.find("NodeMetric", GHOST) is None, within_seconds=20)
    assert [eyes.mid(node) for node in fake_nodes] == offered
