"""Refused pods are left alone while other pods change, and bound soon after nodes have cooled."""

from __future__ import annotations

import time

import pytest

from e2e.support import lone_scheduler

HOT_PERCENT, COOL_PERCENT = 94, 6
NODES, REFUSED = 10, 20
BUSY_SECONDS = 30
WITHIN_SECONDS = 5.0
"""All refused pods are bound so soon, also on a busy machine."""


@pytest.mark.long
@pytest.mark.timeout(300)
def test_in_a_busy_cluster_refused_pods_are_tried_once_and_bound_soon() -> None:
    with lone_scheduler.running() as lone:
        for index in range(NODES):
            lone.add_node(f"n{index}", used_percent=HOT_PERCENT)
        lone.start()
        lone.create_pod("neighbour", node="n0", scheduler="another")
        names = [f"busy-{index}" for index in range(REFUSED)]
        for name in names:
            lone.create_pod(name)
        end = time.monotonic() + BUSY_SECONDS
        while time.monotonic() < end:
            lone.annotate("neighbour", "changed-at", str(time.monotonic()))
            time.sleep(0.5)
        assert lone.attempts() == REFUSED
        assert lone.nodes_of("busy-") == [""] * REFUSED
        cooled = time.time()
        for index in range(NODES):
            lone.report(f"n{index}", COOL_PERCENT)
        assert lone.wait_bound(*names) - cooled <= WITHIN_SECONDS
        assert lone.attempts() == 2 * REFUSED
