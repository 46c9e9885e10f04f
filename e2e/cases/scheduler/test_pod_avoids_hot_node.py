"""A node that runs hot takes no more pods, the pod's event says why, and it is the extender that sees to it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from e2e.support import fake_reports, node_thresholds, waiting, workloads
from e2e.support.cluster_client import ClusterClient
from e2e.support.installation import Suite

CPU_REASON = "cpu usage exceed threshold"
HOT_MILLIS, COOL_MILLIS = 14000, 1000  # of 15500 allocatable
CHOOSERS = 4


@pytest.fixture
def reports(eyes: ClusterClient, fake_nodes: list[str]) -> Callable[[], tuple[str, str]]:
    """Report a hot node and a cool one, as of now; returns their names."""

    def write() -> tuple[str, str]:
        hot, cool = fake_nodes[:2]
        fake_reports.report(eyes, hot, fake_reports.status(cpu_millis=HOT_MILLIS, memory_mib=4096))
        fake_reports.report(eyes, cool, fake_reports.status(cpu_millis=COOL_MILLIS, memory_mib=4096))
        return hot, cool

    return write


def _pod(suite: Suite, name: str, nodes: list[str]) -> dict:
    requests = {"cpu": "100m", "memory": "32Mi"}
    return workloads.pod(name, suite.workload, requests=requests, scheduler=workloads.SCHEDULER, nodes=nodes)


def _node_of(eyes: ClusterClient, name: str, namespace: str) -> str | None:
    return eyes.get("Pod", name, namespace)["spec"].get("nodeName")


def _refusal(eyes: ClusterClient, name: str, namespace: str) -> str:
    events = waiting.until(f"{name} is refused", lambda: eyes.events_of(name, namespace, "FailedScheduling"))
    return events[-1]["message"]


def test_pods_that_may_choose_go_to_the_cool_node(
    eyes: ClusterClient, suite: Suite, namespace: str, reports: Callable[[], tuple[str, str]]
) -> None:
    hot, cool = reports()
    names = [f"chooser-{index}" for index in range(CHOOSERS)]
    for name in names:
        eyes.create("Pod", _pod(suite, name, [hot, cool]), namespace)
    chosen = waiting.until("all are bound", lambda: [_node_of(eyes, name, namespace) for name in names], all)
    assert chosen == [cool] * CHOOSERS


def test_a_pod_that_may_not_choose_waits_and_lands_there_with_the_extender_switched_off(
    eyes: ClusterClient, suite: Suite, namespace: str, reports: Callable[[], tuple[str, str]]
) -> None:
    hot, _ = reports()
    eyes.create("Pod", _pod(suite, "only-there", [hot]), namespace)
    assert CPU_REASON in _refusal(eyes, "only-there", namespace)
    assert _node_of(eyes, "only-there", namespace) is None
    suite.switch_extender(on=False)
    try:
        waiting.until(
            "the same pod is bound", lambda: _node_of(eyes, "only-there", namespace), lambda seen: seen == hot
        )
    finally:
        suite.switch_extender(on=True)


def test_a_load_that_was_really_measured_keeps_a_pod_away_until_it_is_no_longer_too_much(
    eyes: ClusterClient, suite: Suite, node: str, namespace: str
) -> None:
    try:
        node_thresholds.set_threshold(eyes, node, 1)  # which the control plane on it always exceeds
        eyes.create("Pod", _pod(suite, "measured", [node]), namespace)
        assert CPU_REASON in _refusal(eyes, "measured", namespace)
        assert _node_of(eyes, "measured", namespace) is None
    finally:
        node_thresholds.set_threshold(eyes, node, node_thresholds.NEVER_HOT)
    eyes.wait_running(namespace, "measured", within_seconds=60)
