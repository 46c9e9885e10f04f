"""An edit of the ConfigMap reaches every NodeMetric and every node's Mid resources; a wrong one reaches none."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from e2e.support import fake_fleet, mid_formula, slo_config, waiting
from e2e.support.cluster_client import ClusterClient
from e2e.support.names import CONFIG_MAP, SUITE_NAMESPACE
from e2e.support.slo_config import BASE

GIB = 1024  # MiB


@pytest.fixture(scope="module")
def nodes(cluster_client: ClusterClient, node: str, fake_nodes: list[str]) -> list[str]:
    """Return the real node and fake ones with reports."""
    for index, fake in enumerate(fake_nodes):
        reported = fake_fleet.prod_status(
            cpu_millis=1000 * (index + 1), memory_mib=4 * GIB, prod_cpu_millis=6000, prod_memory_mib=24 * GIB
        )
        fake_fleet.report(cluster_client, fake, reported)
    everyone = [node, *fake_nodes]
    waiting.until(
        "every node offers Mid", lambda: [cluster_client.mid(each) for each in everyone], all, within_seconds=90
    )
    return everyone


def specs(cluster_client: ClusterClient, nodes: list[str]) -> list[dict[str, Any]]:
    return [cluster_client.node_metric(each)["spec"] for each in nodes]


def test_a_valid_edit_reaches_every_spec_and_every_mid_resource(
    configure: Callable[..., None], cluster_client: ClusterClient, nodes: list[str], fake_nodes: list[str]
) -> None:
    before = {each: cluster_client.mid(each) for each in fake_nodes}
    policy = {**BASE["nodePredictPolicy"], "n": 3}
    configure(slo_config.changed(nodePredictPolicy=policy, midUnallocatedPercent=20, midMemoryThresholdPercent=10))

    def has_arrived(spec: dict[str, Any]) -> bool:
        mid = spec["midColocationPolicy"]
        return (spec["predictPolicy"]["n"], mid["midUnallocatedPercent"], mid["midMemoryThresholdPercent"]) == (
            3,
            20,
            10,
        )

    waiting.until(
        "the edit in every spec", lambda: specs(cluster_client, nodes), lambda seen: all(map(has_arrived, seen))
    )
    for each in fake_nodes:
        waiting.until(
            f"other Mid on {each}",
            lambda each=each: cluster_client.mid(each),
            lambda seen, each=each: seen != before[each],
        )
    for each in nodes:
        mid_formula.wait_published(cluster_client, each)


def test_the_agent_follows_an_edit(configure: Callable[..., None], cluster_client: ClusterClient, node: str) -> None:
    policy = {**BASE["nodePredictPolicy"], "predictor": "n-sigma-v1"}
    configure(slo_config.changed(nodePredictPolicy=policy))
    waiting.until(
        "a prediction by the other predictor",
        lambda: cluster_client.node_metric(node)["status"].get("prediction", {}).get("predictor"),
        lambda seen: seen == "n-sigma-v1",
        within_seconds=90,
    )
    configure(BASE)
    waiting.until(
        "a prediction by the first predictor again",
        lambda: cluster_client.node_metric(node)["status"].get("prediction", {}).get("predictor"),
        lambda seen: seen == "n-sigma-v2",
        within_seconds=90,
    )


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        pytest.param(
            slo_config.changed(midUnallocatedPercent=101), ["midUnallocatedPercent", "101"], id="out-of-range"
        ),
        pytest.param(slo_config.changed(degradeTimeMinutes="15"), ["degradeTimeMinutes", "15"], id="wrong-type"),
        pytest.param(slo_config.changed(midCpuTreshold=50), ["midCpuTreshold"], id="misspelt"),
        pytest.param(
            slo_config.changed(nodePredictPolicy={"predictor": "crystal-ball"}),
            ["nodePredictPolicy.predictor", "crystal-ball", "n-sigma-v2"],
            id="unknown-predictor",
        ),
        pytest.param('{"enable": true,', ["colocation-config"], id="broken-json"),
    ],
)
def test_an_invalid_edit_changes_nothing_and_is_reported_by_an_event(
    configure: Callable[..., None],
    cluster_client: ClusterClient,
    nodes: list[str],
    fake_nodes: list[str],
    wrong: dict[str, Any] | str,
    named: list[str],
) -> None:
    configure(BASE)
    unlike = lambda seen: any(spec["midColocationPolicy"].get("midUnallocatedPercent") != 50 for spec in seen)  # noqa: E731
    waiting.until("the first configuration", lambda: specs(cluster_client, nodes), lambda seen: not unlike(seen))
    before = specs(cluster_client, nodes), [cluster_client.mid(each) for each in fake_nodes]

    configure(wrong)
    event = waiting.until(
        f"an Event that names {named}",
        lambda: cluster_client.events_of(CONFIG_MAP, SUITE_NAMESPACE),
        lambda events: any(mentions(event, named) for event in events),
    )
    assert next(each for each in event if mentions(each, named))["type"] == "Warning"
    assert (specs(cluster_client, nodes), [cluster_client.mid(each) for each in fake_nodes]) == before, json.dumps(
        wrong
    )


def mentions(event: dict[str, Any], named: list[str]) -> bool:
    """Return whether an Event names all the words."""
    return event["type"] == "Warning" and all(word in event["message"] for word in named)


def test_a_bad_entry_for_some_nodes_changes_no_other_node(
    configure: Callable[..., None], cluster_client: ClusterClient, node: str, fake_nodes: list[str], nodes: list[str]
) -> None:
    selector = {"matchLabels": {"koord-suite.io/fake": "true"}}
    entry = {"name": "fakes", "nodeSelector": selector, "midUnallocatedPercent": 30}
    configure(slo_config.changed(nodeConfigs=[entry], midUnallocatedPercent=40))

    def percents() -> dict[str, int]:
        return {
            each: cluster_client.node_metric(each)["spec"]["midColocationPolicy"]["midUnallocatedPercent"]
            for each in nodes
        }

    wanted = {node: 40, **dict.fromkeys(fake_nodes, 30)}
    waiting.until("the entry on the nodes it selects", percents, lambda seen: seen == wanted)

    configure(slo_config.changed(nodeConfigs=[{**entry, "midUnallocatedPercent": 300}], midUnallocatedPercent=45))
    fallen_back = dict.fromkeys(nodes, 45)
    waiting.until("the cluster's value for all nodes", percents, lambda seen: seen == fallen_back)
    waiting.until(
        "an Event that names the entry",
        lambda: cluster_client.events_of(CONFIG_MAP, SUITE_NAMESPACE),
        lambda events: any(mentions(event, ["nodeConfigs", "300"]) for event in events),
    )
