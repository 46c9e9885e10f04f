"""A new predictor in the ConfigMap reaches the NodeMetric within two report intervals, with the same history."""

from __future__ import annotations

import time
from collections.abc import Iterator
from math import ceil
from typing import Any, NamedTuple

import pytest

from e2e.support import mid_formula, prod_pods, slo_config, waiting
from e2e.support.cluster_client import ClusterClient
from e2e.support.installation import Suite
from e2e.support.slo_config import BASE

TWO_INTERVALS_SECONDS = 2 * BASE["metricReportIntervalSeconds"]
DIVISOR = 1.6


class Switch(NamedTuple):
    """The last prediction of one predictor, the first of the other, and the Prod pods of both."""

    before: dict[str, Any]
    after: dict[str, Any]
    pods: list[Any]


def _prediction(cluster_client: ClusterClient, node: str) -> dict[str, Any]:
    return cluster_client.node_metric(node)["status"]["prediction"]


def _prod(cluster_client: ClusterClient, node: str) -> list[Any]:
    return prod_pods.among(cluster_client.list("Pod", field_selector=f"spec.nodeName={node}"))


@pytest.fixture(scope="module")
def switch(cluster_client: ClusterClient, suite: Suite, node: str) -> Iterator[Switch]:
    """Switch to a predictor whose result depends on the pods' requests alone."""
    waiting.until(
        "a prediction by n-sigma-v2 in which all Prod pods are warm",
        lambda: (_prediction(cluster_client, node), len(_prod(cluster_client, node))),
        lambda seen: (seen[0]["predictor"], seen[0]["warmPods"]) == ("n-sigma-v2", seen[1]),
        within_seconds=120,
    )
    policy = {**BASE["nodePredictPolicy"], "predictor": "borg-default", "requestDivisor": DIVISOR}
    before = _prediction(cluster_client, node)
    slo_config.write(cluster_client, slo_config.changed(nodePredictPolicy=policy))
    edited_at = time.monotonic()
    after = waiting.until(
        "a prediction by borg-default",
        lambda: _prediction(cluster_client, node),
        lambda seen: seen["predictor"] == "borg-default",
        within_seconds=TWO_INTERVALS_SECONDS,
    )
    print(f"switched after {time.monotonic() - edited_at:.1f} s")
    yield Switch(before, after, _prod(cluster_client, node))
    slo_config.write(cluster_client, BASE)


def test_the_parameters_are_those_of_the_config_map(switch: Switch) -> None:
    assert switch.after["parameters"]["predictor"] == "borg-default"
    assert switch.after["parameters"]["requestDivisor"] == DIVISOR
    assert switch.after["parameters"]["n"] == BASE["nodePredictPolicy"]["n"]


def test_no_history_is_lost(switch: Switch) -> None:
    kept = ("since", "warmPods", "coldPods")
    assert {key: switch.after[key] for key in kept} == {key: switch.before[key] for key in kept}


@pytest.mark.parametrize("resource", ["cpu", "memory"])
def test_the_peak_is_the_requests_divided(
    cluster_client: ClusterClient, node: str, switch: Switch, resource: str
) -> None:
    requested = sum(prod_pods.requested(pod, resource) for pod in switch.pods)
    assert requested > 0
    terms = {name: prod_pods.READ[resource](values[resource]) for name, values in switch.after["prod"].items()}
    assert terms["podSumPeak"] == pytest.approx(ceil(requested / DIVISOR), abs=1)
    capacity = prod_pods.READ[resource](cluster_client.get("Node", node)["status"]["capacity"][resource])
    by_terms = min(terms["podSumPeak"] + terms["systemPeak"], capacity)
    assert by_terms - 2 <= terms["peak"] <= capacity, "at least what is used now, which the machine may do"
    assert "classPeak" not in terms


def test_mid_follows(cluster_client: ClusterClient, node: str, switch: Switch) -> None:
    mid_formula.wait_published(cluster_client, node)
