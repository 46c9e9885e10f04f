"""When the extender does not see the reports, or most agents are silent at once, pods are scheduled all the same."""

from __future__ import annotations

import urllib.request

import pytest

from e2e.support import lone_scheduler

EXPIRED_SECONDS = 600


@pytest.mark.timeout(300)
def test_pods_are_scheduled_while_most_reports_are_expired_and_on_a_node_without_any() -> None:
    with lone_scheduler.running() as lone:
        for index in range(4):
            lone.add_node(f"n{index}", used_percent=10)
        lone.report("n0", 10, age_seconds=EXPIRED_SECONDS)
        lone.start()
        lone.create_pod("on-an-expired-node", nodes=["n0"])
        lone.until("it is refused", lambda: lone.attempts("unschedulable") >= 1)
        assert lone.plugin_metric("expired_nodes_pass") == 0

        for index in range(1, 3):
            lone.report(f"n{index}", 10, age_seconds=EXPIRED_SECONDS)
        lone.wait_bound("on-an-expired-node", within_seconds=30)
        assert lone.plugin_metric("expired_nodes_pass") == 1
        with urllib.request.urlopen(f"http://127.0.0.1:{lone.http_port}/readyz", timeout=10) as answer:
            text = answer.read().decode()
        assert "3 of 4 nodes expired" in text

        for index in range(4):
            lone.report(f"n{index}", 10)
        lone.until("reports count again", lambda: lone.plugin_metric("expired_nodes_pass") == 0)
        lone.add_node("brand-new")
        lone.create_pod("on-a-new-node", nodes=["brand-new"])
        lone.wait_bound("on-a-new-node", within_seconds=30)
        assert lone.nodes_of("on-a-new-node") == ["brand-new"]
