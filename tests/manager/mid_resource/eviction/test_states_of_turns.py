"""States of a node between its evictions: closed, opened, without reports, with and without Mid pods."""

import datetime as dt

import pytest

from api_types.colocation import controller_config as slo
from api_types.node_metric.mid_eviction import MidEvictionRecord
from manager.mid_resource.departure import Departure
from manager.mid_resource.eviction import policy, results
from manager.mid_resource.eviction.turns import BLIND_FOR, NodeTurn, Reconciled, Turns
from manager.mid_resource.reasons import Closed
from tests.manager.mid_resource.eviction.test_turns import POLICY, START

HOUR, SECOND = dt.timedelta(hours=1), dt.timedelta(seconds=1)
RECORD = MidEvictionRecord(
    time="2026-11-21T12:00:00Z", since="2026-11-21T12:00:00Z", pod="tenant/a", trigger="MidCPUShort"
)
LEAVES = Departure(Closed.LEAVING, "taint karpenter.sh/disrupted")


def names_of(turns):
    return [turn.name for turn in turns]


def observe_without_report(turns, now):
    return turns.observe(Reconciled("a", "a", None, POLICY, RECORD), now)


def test_a_closed_node_without_reports_opens_after_an_hour_also_where_the_clock_was_set_back():
    turns = Turns()
    observe_without_report(turns, START)
    assert turns.to_reopen(START + BLIND_FOR - SECOND) == []
    assert names_of(turns.to_reopen(START + BLIND_FOR)) == ["a"]
    set_back = START - HOUR
    turns.clock_set_back(set_back)
    observe_without_report(turns, set_back)
    assert turns.to_reopen(set_back + BLIND_FOR - SECOND) == []
    assert names_of(turns.to_reopen(set_back + BLIND_FOR)) == ["a"]


def test_a_node_that_was_opened_is_opened_once():
    turns = Turns()
    turn = observe_without_report(turns, START)
    later = START + BLIND_FOR
    assert turns.to_reopen(later) == [turn]
    assert turns.counts()["closed"] == 1
    turns.reopened(turn, later)
    assert turns.to_reopen(later) == []
    assert turns.counts()["closed"] == 0


@pytest.mark.parametrize(
    ("departure", "mid_pods", "interval", "seconds"),
    [
        (LEAVES, 3, 120, 10),
        (LEAVES, 0, 120, 30),
        (Departure(), 3, 120, 30),
        (Departure(), 0, 120, 30),
        (Departure(), 3, 20, 20),
    ],
)
def test_only_a_node_that_leaves_with_mid_pods_waits_shortly_after_an_attempt(departure, mid_pods, interval, seconds):
    found = policy.of_keys(slo.ColocationStrategy(mid_eviction={"mode": "evict", "node_interval_seconds": interval}))
    turn = NodeTurn("a", "a", found, departure=departure, mid_pods=mid_pods)
    assert results.short_pause(turn) == dt.timedelta(seconds=seconds)


@pytest.mark.parametrize(
    ("mode", "publish", "emergency", "expected"),
    [
        ("evict", "node", "none", "evict"),
        ("evict", "shadow", "none", "advise"),
        ("advise", "shadow", "none", "advise"),
        ("off", "shadow", "none", "off"),
        ("off", "shadow", "drain", "off"),
        ("advise", "node", "drain", "evict"),
        ("advise", "shadow", "drain", "advise"),
    ],
)
def test_in_shadow_nothing_is_evicted(mode, publish, emergency, expected):
    found = policy.of_keys(slo.ColocationStrategy(mid_publish=publish, mid_eviction={"mode": mode}), emergency)
    assert found.mode == expected
    assert found.evicts is (expected == "evict")
