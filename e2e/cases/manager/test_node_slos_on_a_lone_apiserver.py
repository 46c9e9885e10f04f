"""Empty NodeSLOs for Koordinator's agent, with the rights that the chart grants: only where the CRD is, and none is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from e2e.support import lone_manager, upstream_crd, waiting
from e2e.support.lone_manager import LoneManager
from tools.localcluster.apiserver_requests import exists

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
NODE_SLOS = "/apis/slo.koordinator.sh/v1alpha1/nodeslos"
OF_KOORDINATOR = {
    "apiVersion": "slo.koordinator.sh/v1alpha1",
    "kind": "NodeSLO",
    "metadata": {"name": "filled"},
    "spec": {"resourceUsedThresholdWithBE": {"enable": True}},
}


@pytest.fixture
def lone() -> Iterator[LoneManager]:
    with lone_manager.running({"manager": {"createNodeSLOs": True}}) as lone:
        lone.configure()
        lone.start(create_node_slos=True)
        yield lone


def _slos(lone: LoneManager) -> dict[str, dict[str, Any]]:
    return {item["metadata"]["name"]: item for item in lone.api.send("GET", NODE_SLOS)["items"]}


def test_each_node_gets_one_that_ends_with_it_and_an_existing_one_stays(lone: LoneManager) -> None:
    lone.add_node("before")  # the manager works without the CRD
    lone.api.send("POST", CRDS, upstream_crd.node_slo_crd())
    waiting.until("the CRD is served", lambda: exists(lone.api, NODE_SLOS), within_seconds=30)
    lone.api.send("POST", NODE_SLOS, OF_KOORDINATOR)
    for name in ("filled", "joined"):
        lone.add_node(name)
    made = waiting.until("all have one", lambda: _slos(lone), lambda slos: len(slos) == 3, within_seconds=60)
    assert made["filled"]["spec"] == OF_KOORDINATOR["spec"]
    assert [made[name]["spec"] for name in ("before", "joined")] == [{}, {}]
    (owner,) = made["joined"]["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"]) == ("Node", "joined")

    lone.api.send("DELETE", f"{NODE_SLOS}/joined")
    waiting.until("it is back", lambda: "joined" in _slos(lone), within_seconds=30)
