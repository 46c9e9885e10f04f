"""Pools of nodes with values of their own, by labels: each agent, and the Mid of each node, follows its pool."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from e2e.support import several_nodes, slo_config, waiting
from e2e.support.cluster_client import ClusterClient
from e2e.support.names import MID_CPU
from e2e.support.slo_config import BASE

pytestmark = pytest.mark.long
LABEL = "koord-suite.io/pool"
USUAL_N, GOLD_N = BASE["nodePredictPolicy"]["n"], 4
USUAL_PERCENT, GOLD_PERCENT = slo_config.STATIC["midStaticCPUReservedPercent"], 50
POOLS: list[dict[str, Any]] = [
    {
        "name": "gold",
        "nodeSelector": {"matchLabels": {LABEL: "gold"}},
        "midStaticCPUReservedPercent": GOLD_PERCENT,
        "nodePredictPolicy": {"n": GOLD_N},
    },
    {"name": "tin", "nodeSelector": {"matchLabels": {LABEL: "tin"}}, "enable": False},
]


@pytest.fixture(scope="module", autouse=True)
def pools(cluster_client: ClusterClient, three: list[str]) -> Iterator[None]:
    slo_config.write(cluster_client, {**several_nodes.CONFIGURATION, "nodeConfigs": POOLS})
    yield
    slo_config.write(cluster_client, several_nodes.CONFIGURATION)
    _label(cluster_client, dict.fromkeys(three))
    several_nodes.until_all_offer(cluster_client, three)


def _label(cluster_client: ClusterClient, pools: dict[str, str | None]) -> None:
    for node, pool in pools.items():
        cluster_client.patch("Node", node, {"metadata": {"labels": {LABEL: pool}}})


def _seen(cluster_client: ClusterClient, node: str) -> tuple[str, int | None, float]:
    """Return the reason of a node's Mid, its Mid CPU in percent of the node, and N of the agent's last prediction."""
    state = several_nodes.read(cluster_client, node)
    parameters = cluster_client.node_metric(node)["status"]["prediction"]["parameters"]
    cpus = int(cluster_client.get("Node", node)["status"]["capacity"]["cpu"])
    return state.reason, state.mid and round(state.mid[0] / cpus / 10), parameters["n"]


@pytest.mark.parametrize(
    "placed", [(None, "gold", "tin"), ("tin", None, "gold")], ids=["at first", "after the labels moved"]
)
def test_agent_and_mid_of_each_node_follow_the_pool_of_its_label(
    cluster_client: ClusterClient, three: list[str], placed: tuple[str | None, ...]
) -> None:
    several_nodes.shown("before", cluster_client, three)
    _label(cluster_client, dict(zip(three, placed, strict=True)))
    values = {
        None: ("Static", USUAL_PERCENT, USUAL_N),
        "gold": ("Static", GOLD_PERCENT, GOLD_N),
        "tin": ("", None, USUAL_N),  # the manager leaves no trace where colocation is off
    }
    waiting.until(
        f"the values of {placed}", lambda: [_seen(cluster_client, node) for node in three],
        [values[pool] for pool in placed].__eq__, within_seconds=150,
    )  # fmt: skip
    for pool, state in zip(placed, several_nodes.shown("after", cluster_client, three), strict=True):
        print(f"{state.name} is in pool {pool}: {MID_CPU} {state.mid and state.mid[0]}")
