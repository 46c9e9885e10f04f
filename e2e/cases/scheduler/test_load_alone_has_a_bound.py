"""A Prod pod that load alone keeps off every node is placed on the least loaded one after a bound, and no other pod."""

from __future__ import annotations

import time

import pytest

from e2e.support import lone_scheduler

PROD, BATCH = 9500, 5500
BOUND_SECONDS = 20
LATEST_SECONDS = BOUND_SECONDS + 5 + 10  # the next round of the extender, and the longest pause of kube-scheduler

pytestmark = [pytest.mark.timeout(300), pytest.mark.long]


def test_after_the_bound_a_prod_pod_runs_on_the_least_loaded_node() -> None:
    arguments = {"LoadAwareScheduling": {"softAfterSeconds": BOUND_SECONDS}}
    with lone_scheduler.running({"plugin": {"pluginArgs": arguments}}) as lone:
        for name, percent in (("n0", 94), ("n1", 78), ("n2", 88)):
            lone.add_node(name, used_percent=percent)
        lone.start()
        lone.create_pod("batch", priority=BATCH)
        lone.create_pod("prod", priority=PROD)
        lone.until("both are refused", lambda: lone.attempts("unschedulable") >= 2)
        refused = time.time()
        for name, percent in (("n0", 94), ("n1", 78), ("n2", 88)):
            lone.report(name, percent)
        assert lone.plugin_metric("pods_refused_for_load") == 1
        bound = lone.wait_bound("prod", within_seconds=LATEST_SECONDS + 60)
        waited = lone.pods()["prod"].seconds_since_epoch - refused
        assert bound
        assert BOUND_SECONDS - 5 <= waited <= LATEST_SECONDS + 5
        assert lone.nodes_of("prod") == ["n1"]
        assert lone.nodes_of("batch") == [""]
        assert lone.plugin_metric("placements_despite_load_total") == 1
        assert lone.plugin_metric("retried_pods_total", cause="waited") == 1
