"""Whether the fault of a report keeps the next pod from being named."""

import dataclasses
import datetime as dt

import pytest

from manager.mid_resource.eviction import planning
from manager.mid_resource.eviction.shortage import FullReport
from tests.manager.evictions import EVICT
from tests.manager.mid_resource.eviction.test_shortage import POLICY, seen

NOW = dt.datetime(2026, 11, 21, 12, tzinfo=dt.UTC)
FAULT = "no Mid pod is evicted: the report of 2026-11-21T12:00:00Z was replaced by another one"


@pytest.mark.parametrize("drains", [False, True])
async def test_a_report_that_was_replaced_names_no_pod_but_where_every_pod_has_to_go(short, drains):
    await short.start(EVICT)
    node = short.world.cache.nodes.get("n1")
    policy = dataclasses.replace(POLICY, mode="evict", drains=drains)
    found = planning.next_eviction(node, seen((0, 0)), FullReport(), [], policy, now=NOW)
    assert list(found) == ([] if drains else [FAULT])
