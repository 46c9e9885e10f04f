"""Beside a real Karpenter, Mid launches no node and keeps no Prod pod waiting, over a short day of ten nodes."""

from __future__ import annotations

import pytest

from e2e.autoscaler import __main__ as autoscaler
from e2e.autoscaler import levers
from e2e.autoscaler.levers import LEVERS

pytestmark = [pytest.mark.timeout(1200), pytest.mark.long]


def test_mid_launches_no_node_and_keeps_no_prod_pod_waiting() -> None:
    plan = autoscaler.Plan(nodes=10, days=1, day_seconds=300, seed=1, configuration=dict(autoscaler.CONFIGURATION))
    accounts = autoscaler.run(plan, LEVERS["emptied"]).accounts
    assert sum(accounts.claims.values()) == 0
    assert accounts.long_waits()[True] == 0
    assert accounts.mid_core_seconds > 0
    assert accounts.endings.counts()[1] == 0


def test_nodes_that_only_mid_keeps_are_emptied_and_removed() -> None:
    row = levers.attempt("emptied")
    assert row.launched == 0
    assert row.mid_ran > 0
    assert row.empty.nodes == 0, f"no Prod pod is left, and Karpenter keeps {row.empty.nodes} nodes: {row.message}"
    assert row.half.killed + row.empty.killed == 0, "no Mid pod ends with its node"
