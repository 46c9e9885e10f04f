"""A refused pod is tried again when a node cools: soon in a quiet cluster, and seldom while nothing changes."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from e2e.support import lone_scheduler
from e2e.support.lone_scheduler import LoneScheduler

HOT_PERCENT, COOL_PERCENT = 94, 6
LONGEST_BACKOFF_SECONDS = 10  # the chart's
REFUSED = 20
MOST_ATTEMPTS = 120
BUSY_SECONDS = 30
"""Minor version from which kube-scheduler tries refused pods again at changes of other pods."""

pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def lone() -> Iterator[LoneScheduler]:
    with lone_scheduler.running() as lone:
        for index in range(10):
            lone.add_node(f"n{index}", used_percent=HOT_PERCENT)
        lone.start()
        yield lone


def all_nodes_use(lone: LoneScheduler, percent: float) -> None:
    for index in range(10):
        lone.report(f"n{index}", percent)


def test_in_a_quiet_cluster_a_pod_is_bound_within_two_seconds_after_its_node_cooled(lone: LoneScheduler) -> None:
    lone.create_pod("waiting")
    lone.until("it is refused", lambda: lone.attempts("unschedulable") >= 1)
    time.sleep(LONGEST_BACKOFF_SECONDS + 2)
    before = time.time()
    lone.report("n7", COOL_PERCENT)
    assert lone.wait_bound("waiting", within_seconds=60) - before <= 2
    assert lone.nodes_of("waiting") == ["n7"]
    assert lone.of_extender("retried_pods_total", cause="cooled") == 1
    assert lone.of_extender("failed_retries_total") == 0


def test_in_a_busy_cluster_refused_pods_are_tried_seldom_and_bound_soon(lone: LoneScheduler) -> None:
    all_nodes_use(lone, HOT_PERCENT)
    lone.create_pod("neighbour", node="n0", scheduler="another")
    time.sleep(1)
    attempts = lone.attempts()
    for index in range(REFUSED):
        lone.create_pod(f"busy-{index}")
    end = time.monotonic() + BUSY_SECONDS
    while time.monotonic() < end:
        lone.annotate("neighbour", "changed-at", str(time.monotonic()))
        time.sleep(0.5)
    tried = lone.attempts() - attempts
    assert 2 * REFUSED <= tried <= MOST_ATTEMPTS, "the changes do wake the pods"
    assert lone.nodes_of("busy-") == [""] * REFUSED
    cooled = time.time()
    all_nodes_use(lone, COOL_PERCENT)
    waited = lone.wait_bound(*(f"busy-{index}" for index in range(REFUSED)), within_seconds=60) - cooled
    assert waited <= LONGEST_BACKOFF_SECONDS + 2
