"""Whose turn it is."""

import datetime as dt

import pytest

from api_types import names
from api_types.node_metric.mid_eviction import MidEvictionRecord
from manager.mid_resource.eviction import policy
from manager.mid_resource.eviction.nodes import NodeTurn, Reconciled, Turns
from manager.mid_resource.eviction.shortage import Observation
from manager.slo_config import strategy
from tests.manager.conftest import allocated, amounts
from tests.manager.evictions import EVICT

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


STATIC = {**EVICT, "midReclaimMode": "static", "midStaticCPUReservedPercent": 50, "midStaticMemoryReservedPercent": 50}
UNALLOCATED = {**EVICT, "midUnallocatedPercent": 50}
DISRUPTED = {"spec": {"taints": [{"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}]}}


def with_a_prediction(short):
    return short.status(calculated=(4000, 10_000))


def of_static_mode(short):
    mid_cpu, mid_memory = short.requested("n1")
    return {"allocated": allocated(mid_cpu=mid_cpu, mid_memory=mid_memory)}


def of_koordinators_agent(short):
    """Return a report without requests."""
    usage = {"nodeUsage": {"resources": {"cpu": "1", "memory": "1k"}}}
    reclaimable = amounts("4", "8k")
    return {"nodeMetric": usage, "prodReclaimableMetric": reclaimable, "allocated": None, "prodPeakMetric": None}


def without_a_prediction(short):
    return {**short.status(), "prodPeakMetric": None}


async def configure(short, document):
    short.world.configure(document)
    await short.world.config.refresh()
    await short.world.settle()


async def minutes(short, count, status):
    for _ in range(count):
        short.world.report("n1", seconds_ago=1, **status(short))
        await short.world.settle()
        for _ in range(6):
            await short.round()
            short.pass_seconds(10)


async def begin_and_end(short, document, status, cause):
    """Let two Mid pods be evicted for a cause that is over a moment later."""
    await short.start(document)
    for index in range(2):
        short.add_pod(f"m{index}")
    await minutes(short, 2, status)
    if cause == "drain":
        await configure(short, {**document, "midEmergency": "drain"})
    else:
        short.server.patch("nodes", "n1", DISRUPTED)
    await minutes(short, 3, status)
    assert len(short.evicted) == 2
    short.end_pods()
    if cause == "drain":
        await configure(short, document)
    else:
        short.server.patch("nodes", "n1", {"spec": {"taints": None}})
        await short.world.settle()


@pytest.mark.parametrize("cause", ["drain", "leaving"])
@pytest.mark.parametrize(
    ("document", "status"),
    [
        (EVICT, with_a_prediction),
        (STATIC, of_static_mode),
        (EVICT, of_koordinators_agent),
        (UNALLOCATED, without_a_prediction),
    ],
)
async def test_a_drain_or_a_departure_that_is_over_closes_no_node_without_end(short, document, status, cause):
    await begin_and_end(short, document, status, cause)
    assert short.annotation() is not None
    await minutes(short, 6, status)
    assert (short.annotation(), short.closed()) == (None, "")
    assert short.world.mid_of()[0] > 0


async def test_a_node_that_is_short_after_its_departure_was_called_off_stays_closed(short):
    of_daemon_set = {"ownerReferences": [{"kind": "DaemonSet", "name": "d", "uid": "d", "controller": True}]}
    short.add_pod("stays", 3000, **of_daemon_set)
    await begin_and_end(short, EVICT, with_a_prediction, "leaving")
    await minutes(short, 12, lambda short: short.status(calculated=(2999, 10_000)))
    assert short.annotation() is not None
    await minutes(short, 1, lambda short: short.status(calculated=(3000, 10_000)))
    assert short.annotation() is None


@pytest.mark.parametrize("percent", [66, 80])
async def test_the_memory_that_prod_alone_uses_keeps_no_node_closed_that_cpu_closed(short, percent):
    await short.start()
    for index in range(3):
        short.add_pod(f"m{index}", 1000, 10)
    memory = (200 * percent, 10)
    await short.minutes(3, calculated=(2000, 2000), memory=memory)
    assert short.annotation()["trigger"] == "MidCPUShort"
    short.end_pods()
    await short.minutes(7, calculated=(5000, 2000), memory=memory)
    assert (len(short.evicted), short.annotation()) == (1, None)


async def test_a_node_that_its_memory_closed_opens_only_below_the_threshold_by_the_share(short):
    await short.start()
    short.add_pod("a", 3000, 3000)
    await short.minutes(3, memory=(11_000, 3_001), calculated=(2000, 10_000))
    assert (short.evicted, short.annotation()["trigger"]) == (["a"], "NodeMemoryHigh"), "short of both"
    short.end_pods()
    await short.minutes(10, memory=(12_800, 0))
    assert short.annotation() is not None, "64 % of it; 110 % of that are 70 %"
    await short.minutes(7, memory=(12_700, 0))
    assert short.annotation() is None


@pytest.mark.parametrize(
    ("document", "status"),
    [(STATIC, of_static_mode), (EVICT, of_koordinators_agent), (UNALLOCATED, without_a_prediction)],
)
async def test_a_node_that_was_short_opens_where_no_report_can_show_any_more_that_it_is_not(short, document, status):
    await short.start()
    for index in range(3):
        short.add_pod(f"m{index}", 1000, 10)
    await short.minutes(3, calculated=(2000, 2000))
    assert short.annotation()["trigger"] == "MidCPUShort"
    short.end_pods()
    await configure(short, document)
    await minutes(short, 50, status)
    assert short.annotation() is not None, "reports may come again"
    await minutes(short, 30, status)
    assert (short.annotation(), short.closed()) == (None, "")
    assert short.world.mid_of()[0] >= 2000


def test_a_node_waits_for_its_pause_and_for_fresh_reports():
    turns, states, now = short("a")
    states["a"].attempted(now, dt.timedelta(seconds=120))
    assert turns.due(now + dt.timedelta(seconds=119)) == []
    assert turns.due(now + dt.timedelta(seconds=120)) == [states["a"]]
    assert turns.due(now + POLICY.fresh + dt.timedelta(seconds=1)) == []


def test_a_node_that_is_created_again_is_not_closed():
    turns, _, now = short("a")
    record = MidEvictionRecord(time="2026-11-21T12:03:00Z", since="2026-11-21T12:03:00Z")
    turns.observe(Reconciled("a", "a", None, POLICY, record), now)
    turns.observe(Reconciled("a", "another UID", None, POLICY, None), now)
    assert turns.counts()["closed"] == 0
