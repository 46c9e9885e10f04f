"""kube-scheduler samples the nodes of a larger cluster: a pod whose sample was hot finds the cool nodes soon."""

from __future__ import annotations

import pytest

from e2e.support import lone_scheduler

HOT, COOL, PODS = 150, 50, 12


@pytest.mark.timeout(300)
def test_pods_find_the_cool_nodes_of_a_cluster_that_is_mostly_hot() -> None:
    with lone_scheduler.running() as lone:
        for index in range(HOT):
            lone.add_node(f"hot-{index:03d}", used_percent=90)
        for index in range(COOL):
            lone.add_node(f"cool-{index:03d}", used_percent=10)
        lone.start()
        names = [f"web-{index}" for index in range(PODS)]
        for name in names:
            lone.create_pod(name, cpu="1")
        lone.wait_bound(*names, within_seconds=30)
        assert all(node.startswith("cool-") for node in lone.nodes_of("web-"))
        assert lone.attempts() <= 4 * PODS
