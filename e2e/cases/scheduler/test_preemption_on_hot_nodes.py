"""A pod that every hot node would refuse evicts nothing; where a node passes after the evictions, it takes that one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from e2e.support import lone_scheduler
from e2e.support.lone_scheduler import PODS, LoneScheduler

HOT_PERCENT, COOL_PERCENT = 94, 6
NODES = [f"n{index}" for index in range(10)]

pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def lone() -> Iterator[LoneScheduler]:
    with lone_scheduler.running() as lone:
        for name in NODES:
            lone.add_node(name, used_percent=HOT_PERCENT)
            for index in range(4):
                lone.create_pod(f"low-{name}-{index}", cpu="25", priority=100, node=name)
        lone.start()
        yield lone


def test_nothing_is_evicted_from_hot_nodes_for_a_pod_that_they_would_refuse(lone: LoneScheduler) -> None:
    lone.create_pod("important", cpu="25", priority=9000)
    lone.until("it is refused", lambda: lone.attempts("unschedulable") >= 1)
    # The end of a pod makes kube-scheduler try again, after the backoff; this one leaves no more room than before.
    lone.create_pod("passing", cpu="1", node="n0")
    lone.api.send("DELETE", f"{PODS}/passing")
    lone.until(
        "the extender has removed every node from the candidates of two attempts",
        lambda: lone.of_extender("preemption_candidates_total", outcome="removed") >= 2 * len(NODES),
    )
    lone.until("it is refused again", lambda: lone.attempts("unschedulable") >= 2)
    assert len(lone.nodes_of("low-")) == 40
    assert lone.nodes_of("important") == [""]
    assert lone.of_extender("preemption_candidates_total", outcome="kept") == 0


def test_a_cool_node_gives_way_with_the_fewest_evictions(lone: LoneScheduler) -> None:
    lone.report("n3", COOL_PERCENT, pods=[f"low-n3-{index}" for index in range(4)])
    lone.api.send("DELETE", f"{PODS}/low-n0-0")  # makes kube-scheduler try again; n0 has room now, and is still hot
    lone.wait_bound("important", within_seconds=60)
    assert lone.nodes_of("important") == ["n3"]
    assert len(lone.nodes_of("low-")) == 38
