"""Whose turn it is."""

import datetime as dt

from api_types import names
from api_types.node_metric.mid_eviction import MidEvictionRecord
from manager.mid_resource.eviction import policy
from manager.mid_resource.eviction.nodes import NodeTurn, Reconciled, Turns
from manager.mid_resource.eviction.shortage import Observation
from manager.slo_config import strategy

START = dt.datetime(2026, 11, 21, 12, tzinfo=dt.UTC)
EVICTS = strategy.slo.ColocationConfig.model_validate({"enable": True, "midEviction": {"mode": "evict"}})
POLICY = policy.eviction_policy(strategy.node_strategy(strategy.configuration(EVICTS), {}, {}))


def observe(turns, name, minute):
    now = START + dt.timedelta(minutes=minute)
    calculated = {names.MID_CPU: 0, names.MID_MEMORY: 0}
    allocated = {names.MID_CPU: 1000, names.MID_MEMORY: 1000}
    return turns.observe(Reconciled(name, name, Observation(now, calculated, allocated, 1), POLICY, None), now)


def short(*found):
    turns = Turns()
    states = {name: [observe(turns, name, minute) for minute in range(3)][-1] for name in found}
    return turns, states, START + dt.timedelta(minutes=2)


def test_a_report_that_shows_nothing_begins_the_count_again():
    turns, _, now = short("a")
    turns.observe(Reconciled("a", "a", None, POLICY, None), now)
    assert turns.due(now) == []
    for minute in (3, 4):
        observe(turns, "a", minute)
        assert turns.due(START + dt.timedelta(minutes=minute)) == []
    observe(turns, "a", 5)
    assert len(turns.due(START + dt.timedelta(minutes=5))) == 1


def test_the_same_report_counts_once_and_an_older_one_never():
    turns = Turns()
    for minute in (0, 0, 0, 1, 0, 1):
        observe(turns, "a", minute)
    assert turns.due(START + dt.timedelta(minutes=1)) == []


def test_a_node_that_ceases_to_be_short_while_its_pod_is_evicted_stays_closed():
    turns, states, now = short("a")
    enough = {names.MID_CPU: 1000, names.MID_MEMORY: 1000}
    later = now + dt.timedelta(minutes=1)
    turns.observe(Reconciled("a", "a", Observation(later, enough, enough, 1), POLICY, None), later)
    turns.closed(states["a"], MidEvictionRecord(time="2026-11-21T12:03:00Z", since="2026-11-21T12:03:00Z"), later)
    assert turns.counts()["closed"] == 1
    assert turns.to_reopen(later) == []


def test_a_scrape_counts_while_nodes_are_forgotten(monkeypatch):
    """Metrics are made in a thread of their own."""
    turns, _, _ = short("a", "b", "c")
    before = NodeTurn.triggers

    def forget_another(turn):
        turns.forget("b")
        return before.fget(turn)

    monkeypatch.setattr(NodeTurn, "triggers", property(forget_another))
    assert turns.counts()["MidCPUShort"] == 2
