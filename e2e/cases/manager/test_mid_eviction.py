"""Mid pods of short nodes are named, or evicted in order, against a real kube-apiserver: budgets, rights, the leader.

The nodes are plain objects whose reports the case writes, so nothing but the manager decides. The managers have the
roles and the admission policies of the chart and nothing else.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from http import HTTPStatus
from typing import Any

import pytest

from e2e.support import lone_manager
from e2e.support.lone_manager import LoneManager

TENANT, NEIGHBOUR = "tenant", "zz-neighbour"
EVICT = {"mode": "evict", "nodeIntervalSeconds": 10, "readmitSeconds": 5}

pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module")
def lone() -> Iterator[LoneManager]:
    with lone_manager.running() as lone:
        lone.configure()
        for namespace in (TENANT, NEIGHBOUR):
            lone.add_namespace(namespace)
        lone.start(eviction_namespaces=TENANT)
        yield lone


def _short_node(lone: LoneManager, name: str, pods: int = 3) -> None:
    lone.add_node(name)
    for index in range(pods):
        lone.add_pod(f"{name}-{index}", node=name, namespace=TENANT)


@pytest.fixture
def granted(lone: LoneManager) -> Iterator[None]:
    """Grant the right to evict in the namespace of the tenant, as the chart does by value."""
    documents = lone.right_to_evict(TENANT)
    lone.create(*documents)
    yield
    lone.delete(*documents)


def test_advice_names_the_pod_and_writes_nothing(lone: LoneManager) -> None:
    _short_node(lone, "advised")
    lone.report_until("advice", lambda: lone.events("MidEvictionAdvised", "advised"), {"advised": 2})
    (message,) = lone.events("MidEvictionAdvised", "advised")
    assert message.startswith("would evict the Mid pod tenant/advised-0: Mid pods request 1 cores")
    lone.report_for(5, {"advised": 2})
    assert (lone.leaving("advised"), lone.annotation("advised")) == ([], None)


def test_without_the_binding_the_mode_evict_evicts_nothing_and_names_the_right(lone: LoneManager) -> None:
    lone.configure(midEviction=EVICT)
    _short_node(lone, "forbidden")
    lone.report_until("the missing right", lambda: lone.events("MidEvictionNotAllowed", "forbidden"), {"forbidden": 2})
    assert "manager.eviction.namespaces" in lone.events("MidEvictionNotAllowed", "forbidden")[0]
    assert (lone.leaving("forbidden"), lone.annotation("forbidden")) == ([], None)
    assert lone.metric("koord_manager_mid_eviction_allowed") == 0


def test_the_token_of_the_manager_evicts_only_where_the_chart_grants_it(lone: LoneManager) -> None:
    lone.add_node("guarded")
    for name, namespace in (("here", TENANT), ("there", NEIGHBOUR)):
        lone.add_pod(name, node="guarded", namespace=namespace)

    def evict(name: str, namespace: str, **preconditions: str) -> int:
        body: dict[str, Any] = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": name, "namespace": namespace},
        }
        if preconditions:
            body["deleteOptions"] = {"preconditions": preconditions}
        return lone.send_as_manager(f"/api/v1/namespaces/{namespace}/pods/{name}/eviction", body)

    assert evict("here", TENANT) == HTTPStatus.FORBIDDEN
    documents = lone.right_to_evict(TENANT)
    lone.create(*documents)
    try:
        other = "00000000-0000-0000-0000-000000000000"
        lone.until("a replaced pod stays", lambda: evict("here", TENANT, uid=other) == HTTPStatus.CONFLICT, 20)
        assert lone.leaving("guarded") == []
        assert evict("here", TENANT) == HTTPStatus.CREATED
        assert evict("there", NEIGHBOUR) == HTTPStatus.FORBIDDEN
    finally:
        lone.delete(*documents)


def test_in_order_one_at_a_time_until_nothing_is_short_and_the_node_stays_closed(
    lone: LoneManager, granted: None
) -> None:
    del granted
    lone.configure(midEviction=EVICT)
    lone.add_node("ordered")
    lone.add_pod("defers", node="ordered", namespace=TENANT, eviction_priority="5")
    lone.add_pod("plain", node="ordered", namespace=TENANT)
    lone.add_pod("volunteers", node="ordered", namespace=TENANT, eviction_priority="-5")
    lone.add_pod("neighbour", node="ordered", namespace=NEIGHBOUR)
    lone.report_until("the first eviction", lambda: lone.leaving("ordered"), {"ordered": 2}, within_seconds=120)
    first = time.monotonic()
    assert lone.leaving("ordered") == ["volunteers"]
    note = lone.annotation("ordered")
    assert note is not None
    assert (note["pod"], note["trigger"]) == ("tenant/volunteers", "MidCPUShort")
    lone.report_until("the second", lambda: len(lone.leaving("ordered")) == 2, {"ordered": 2})
    assert time.monotonic() - first >= 8, "ten seconds apart, but for the steps of this test"
    assert set(lone.leaving("ordered")) == {"volunteers", "plain"}
    lone.report_for(12, {"ordered": 2})
    assert len(lone.leaving("ordered")) == 2, "what terminates counts as freed"
    assert lone.mid_cores("ordered") == 2, "room for the pods that stay only"
    assert lone.events("MidPodEvicted", "ordered")
    assert lone.events("MidPodEvicted", "volunteers"), "on the pod too, in its namespace"
    lone.report_until("the node opens", lambda: lone.annotation("ordered") is None, {"ordered": 6})
    lone.report_until("its Mid is published again", lambda: lone.mid_cores("ordered") == 6, {"ordered": 6})


def test_a_budget_that_refuses_is_kept_and_the_next_pod_goes(lone: LoneManager, granted: None) -> None:
    del granted
    lone.configure(midEviction=EVICT)
    lone.add_node("budget")
    for name in ("kept", "goes"):
        lone.add_pod(
            f"budget-{name}", node="budget", namespace=TENANT, eviction_priority="-1" if name == "kept" else "0"
        )
    lone.add_budget("budget-kept", namespace=TENANT, allowed=0)
    lone.report_until("a refusal", lambda: lone.events("MidEvictionRefused", "budget"), {"budget": 1}, 120)
    lone.report_until("the other one goes", lambda: lone.leaving("budget"), {"budget": 1})
    assert lone.leaving("budget") == ["budget-goes"]
    lone.report_for(3, {"budget": 0})
    lone.add_budget("budget-kept", namespace=TENANT, allowed=1)
    lone.report_until("it goes once it may", lambda: len(lone.leaving("budget")) == 2, {"budget": 0}, 120)


def test_reports_that_stop_evict_nothing(lone: LoneManager, granted: None) -> None:
    del granted
    lone.configure(midEviction=EVICT | {"reports": 100})
    _short_node(lone, "stale")
    lone.report_for(5, {"stale": 2})
    time.sleep(35)  # a report counts for 32 s
    lone.configure(midEviction=EVICT)
    for _ in range(5):
        lone.report("stale", calculated_cores=2, age_seconds=40)
        time.sleep(1)
    assert (lone.leaving("stale"), lone.annotation("stale")) == ([], None)
    lone.report_until("fresh reports do", lambda: lone.leaving("stale"), {"stale": 2})


def test_a_leader_that_is_killed_in_the_middle_is_followed_by_one_that_keeps_the_pause(
    lone: LoneManager, granted: None
) -> None:
    del granted
    lone.configure(midEviction=EVICT | {"nodeIntervalSeconds": 45})
    lone.start("standby", eviction_namespaces=TENANT)
    _short_node(lone, "handed-over", pods=5)
    lone.report_until("the first eviction", lambda: lone.leaving("handed-over"), {"handed-over": 2}, 120)
    first = time.monotonic()
    lone.kill("manager")
    lone.report_until(
        "the standby leads", lambda: lone.metric("koord_manager_leader", "standby") == 1, {"handed-over": 2}
    )
    assert time.monotonic() - first < 30
    while time.monotonic() - first < 40:
        lone.report_for(1, {"handed-over": 2})
        assert len(lone.leaving("handed-over")) == 1
    lone.report_until("the second", lambda: len(lone.leaving("handed-over")) == 2, {"handed-over": 2})


def test_the_emergency_closes_every_node_within_ten_seconds(lone: LoneManager) -> None:
    nodes = [f"frozen-{index}" for index in range(5)]
    for name in nodes:
        lone.add_node(name)
    lone.add_pod("stays", node=nodes[0], namespace=TENANT)
    extender = lone.start_extender()
    reports = dict.fromkeys(nodes, 6)
    lone.configure()
    lone.report_until("Mid is offered", lambda: all(lone.mid_cores(name) == 6 for name in nodes), reports)
    lone.until("the extender admits", lambda: extender(nodes) == set(nodes))
    lone.configure(midEmergency="freeze")
    begun = time.monotonic()
    lone.until("no node admits", lambda: not extender(nodes), 10)
    lone.until("nor is any room published", lambda: [lone.mid_cores(name) for name in nodes] == [1, 0, 0, 0, 0], 10)
    assert time.monotonic() - begun < 10
    lone.configure()
    lone.report_until("they admit again", lambda: extender(nodes) == set(nodes), reports)
