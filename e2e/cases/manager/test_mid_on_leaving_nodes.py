"""Beside an autoscaler, against a real kube-apiserver: a node that leaves, a cordoned one, one that only Mid pods keep.

The nodes are plain objects; the case sets the taints that an autoscaler would set, and its node is never removed.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from e2e.support import lone_manager
from e2e.support.lone_manager import LoneManager
from tools.localcluster.apiserver_requests import MERGE_PATCH, NODES

TENANT, SHOP = "tenant", "shop"
EVICT = {
    "mode": "evict", "nodeIntervalSeconds": 10, "readmitSeconds": 5,
    "emptyNodeSeconds": 10, "emptyNodesAtOnce": 3,
}  # fmt: skip
PATIENT = {"lease_duration_seconds": 60, "renew_deadline_seconds": 40, "retry_period_seconds": 2}
"""No case here is about the leader: on a machine with other work a Lease of seconds is lost."""
ROOM = 8
"""Cores of Mid that each report leaves, which is more than the pods request."""

pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module")
def lone() -> Iterator[LoneManager]:
    with lone_manager.running() as lone:
        lone.configure(midEviction=EVICT)
        for namespace in (TENANT, SHOP):
            lone.add_namespace(namespace)
        lone.create(*lone.right_to_evict(TENANT))
        lone.start(eviction_namespaces=TENANT, **PATIENT)
        yield lone


def _node(lone: LoneManager, name: str, *, with_prod: bool = True, pods: int = 2) -> None:
    lone.add_node(name)
    if with_prod:
        _add_prod(lone, name)
    for index in range(pods):
        lone.add_pod(f"{name}-{index}", node=name, namespace=TENANT)
    lone.report_until("room is published", lambda: lone.mid_cores(name) == ROOM, {name: ROOM})


def _add_prod(lone: LoneManager, node: str) -> None:
    lone.add_pod(
        f"{node}-web", node=node, namespace=SHOP, priority="koord-prod", requests={"cpu": "1", "memory": "1Gi"}
    )


def _change(lone: LoneManager, node: str, **spec: object) -> None:
    lone.api.send("PATCH", f"{NODES}/{node}", {"spec": spec}, content=MERGE_PATCH)


def _taint(key: str, effect: str = "NoSchedule") -> list[dict[str, str]]:
    return [{"key": key, "effect": effect}]


def test_the_mid_pods_of_a_node_that_leaves_go_in_time_and_it_opens_if_it_stays(lone: LoneManager) -> None:
    _node(lone, "leaves", pods=4)
    _change(lone, "leaves", taints=_taint("karpenter.sh/disrupted"))
    lone.until("all Mid pods terminate", lambda: len(lone.leaving("leaves")) == 4, within_seconds=90)
    lone.until("its status shows it", lambda: lone.status("leaves").get("closed") == "Leaving")
    assert "taint karpenter.sh/disrupted" in lone.status("leaves")["detail"]
    lone.report_for(3, {"leaves": ROOM})
    assert lone.mid_cores("leaves") <= 4, "no room for another pod"
    assert any("is about to be removed" in each for each in lone.events("MidPodEvicted", "leaves"))
    _change(lone, "leaves", taints=None)
    lone.report_until("it opens again", lambda: "closed" not in lone.status("leaves"), {"leaves": ROOM})


@pytest.mark.parametrize(
    ("name", "spec", "closed"),
    [
        ("cordoned", {"unschedulable": True}, "Cordoned"),
        (
            "candidate",
            {"taints": _taint("DeletionCandidateOfClusterAutoscaler", "PreferNoSchedule")},
            "ScaleDownCandidate",
        ),
    ],
)
def test_a_node_that_may_leave_keeps_its_mid_pods_and_admits_none(
    lone: LoneManager, name: str, spec: dict[str, object], closed: str
) -> None:
    _node(lone, name)
    _change(lone, name, **spec)
    lone.report_until("it is closed", lambda: lone.mid_cores(name) == 2, {name: ROOM})
    assert lone.status(name)["closed"] == closed
    lone.report_for(15, {name: ROOM})
    assert lone.leaving(name) == []
    _change(lone, name, **dict.fromkeys(spec))
    lone.report_until("it opens at once", lambda: lone.mid_cores(name) == ROOM, {name: ROOM})


def test_a_node_that_only_mid_pods_keep_is_emptied_until_another_pod_runs_there(lone: LoneManager) -> None:
    _node(lone, "kept")
    _node(lone, "mid-only", with_prod=False)
    rooms = {"kept": ROOM, "mid-only": ROOM}
    lone.report_until("its Mid pods terminate", lambda: len(lone.leaving("mid-only")) == 2, rooms, within_seconds=120)
    assert (lone.leaving("kept"), lone.annotation("kept")) == ([], None)
    lone.report_until("its status shows it", lambda: lone.status("mid-only").get("closed") == "MidOnly", rooms)
    (message,) = lone.events("MidOnlyNodeClosed", "mid-only")
    assert "2 Mid pods request 2 cores" in message
    lone.report_for(15, rooms)
    assert lone.status("mid-only")["closed"] == "MidOnly", "calm reports do not reopen it"
    _add_prod(lone, "mid-only")
    lone.report_until("it opens", lambda: lone.annotation("mid-only") is None, rooms, within_seconds=120)
    assert lone.events("MidOnlyNodeReopened", "mid-only") == [
        "accepts new Mid pods again: the pod shop/mid-only-web runs there"
    ]
