"""Beside a real Karpenter, Mid launches no node and keeps no Prod pod waiting, over a short day of ten nodes."""

from __future__ import annotations

import pytest

from e2e.autoscaler import __main__ as autoscaler
from e2e.autoscaler.levers import LEVERS

pytestmark = [pytest.mark.timeout(1200), pytest.mark.long]


def test_mid_launches_no_node_and_keeps_no_prod_pod_waiting() -> None:
    plan = autoscaler.Plan(nodes=10, days=1, day_seconds=300, seed=1, configuration=dict(autoscaler.CONFIGURATION))
    accounts = autoscaler.run(plan, LEVERS["none"]).accounts
    assert sum(accounts.claims.values()) == 0
    assert accounts.long_waits()[True] == 0
    assert accounts.mid_core_seconds > 0
    assert accounts.endings.counts()[1] == 0
