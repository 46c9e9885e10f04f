"""Pauses of a node between its evictions, and when it opens again, by a clock that a test sets. Pure."""

import dataclasses
import datetime as dt

import pytest

from api_types import names
from api_types.colocation import controller_config as slo
from api_types.node_metric.mid_eviction import MidEvictionRecord
from manager.mid_resource.departure import STAYS, Departure
from manager.mid_resource.eviction.policy import of_keys
from manager.mid_resource.eviction.shortage import Trigger
from manager.mid_resource.eviction.turns import NodeTurn, Reconciled, Turns
from manager.mid_resource.reasons import Closed
from tests.manager.mid_resource.eviction.test_turns import POLICY, START, observe, short

LEAVES = Departure(Closed.LEAVING, "deletionTimestamp")
SECOND, MINUTE, HOUR = dt.timedelta(seconds=1), dt.timedelta(minutes=1), dt.timedelta(hours=1)
ADVISES = dataclasses.replace(POLICY, mode="advise")
DRAINS = dataclasses.replace(POLICY, drains=True)


def record(at=START, trigger=Trigger.MID_CPU, time=""):
    stamp = time or f"{at:%Y-%m-%dT%H:%M:%SZ}"
    return MidEvictionRecord(time=stamp, since=stamp, trigger=trigger)


def seen(turns, written, now, *, departure=STAYS, uid="a", policy=POLICY):
    return turns.observe(Reconciled("a", uid, None, policy, written, departure), now)


def test_a_node_waits_for_its_interval_after_the_eviction_that_its_annotation_records():
    assert seen(Turns(), record(), START + SECOND).not_before == START + POLICY.node_interval


@pytest.mark.parametrize(("interval", "seconds"), [(None, 150), (20, 70), (600, 1230)])
def test_a_report_is_fresh_for_two_intervals_and_half_a_minute(interval, seconds):
    keys = slo.ColocationStrategy(metric_report_interval_seconds=interval)
    assert of_keys(keys).fresh == dt.timedelta(seconds=seconds)


def test_an_annotation_of_the_future_begins_the_interval_now_and_once():
    turns = Turns()
    assert seen(turns, record(START + HOUR), START).not_before == START + POLICY.node_interval
    assert seen(turns, record(START + HOUR), START + MINUTE).not_before == START + POLICY.node_interval
    assert seen(turns, record(START + HOUR), START + HOUR).not_before == START + HOUR + POLICY.node_interval


def test_an_older_annotation_shortens_no_pause():
    turns = Turns()
    seen(turns, record(START), START).attempted(START, HOUR)
    turn = seen(turns, record(START - MINUTE), START + SECOND)
    assert (turn.record, turn.not_before) == (record(START), START + HOUR)


def test_a_refused_attempt_counts_as_no_eviction():
    turn = seen(Turns(), record(), START)
    turn.recent = (START - SECOND, START)
    assert turn.last_eviction() == START
    turn.was_refused(START + SECOND, 10 * SECOND)
    assert (turn.last_eviction(), turn.recent) == (None, (START - SECOND,))
    assert (turn.last_attempt, turn.not_before) == (START + SECOND, START + 11 * SECOND)
    assert NodeTurn("n", "n", POLICY).last_eviction() is None
    assert NodeTurn("n", "n", POLICY, record=record(time="soon")).last_eviction() is None


def test_a_pause_that_was_made_for_reports_ends_once_when_the_node_leaves():
    turns = Turns()
    seen(turns, record(), START).attempted(START, HOUR)
    turn = seen(turns, record(), START + MINUTE, departure=LEAVES)
    assert (turn.leaves_since, turns.due(START + MINUTE)) == (START + MINUTE, [turn])
    turn.attempted(START + MINUTE, 10 * SECOND)
    turn = seen(turns, record(), START + MINUTE + SECOND, departure=LEAVES)
    assert (turn.leaves_since, turn.not_before) == (START + MINUTE, START + MINUTE + 10 * SECOND)


def test_a_node_without_a_shortage_is_kept_until_its_pause_is_over():
    turns, states, now = short("a")
    states["a"].attempted(now, MINUTE)
    enough = {names.MID_CPU: 1000, names.MID_MEMORY: 1000}
    newest = dataclasses.replace(states["a"].watched.newest, sample=now + SECOND, calculated=enough, allocated=enough)

    def again(at):
        return turns.observe(Reconciled("a", "a", newest, POLICY, None), at)

    assert again(now + MINUTE - SECOND) is states["a"]
    assert again(now + MINUTE) is states["a"], "its pause is over, so it is dropped"
    assert again(now + MINUTE) is not states["a"]


def test_a_node_that_is_created_again_is_neither_short_nor_in_a_pause():
    turns, states, now = short("a")
    states["a"].attempted(now, HOUR)
    turn = seen(turns, None, now, uid="another")
    assert turn is not states["a"]
    assert turns.due(now + HOUR) == []
    assert turns.counts()["MidCPUShort"] == 0


def test_a_node_that_is_created_again_comes_after_those_that_leave_for_longer():
    turns = Turns()
    seen(turns, None, START, departure=LEAVES)
    turns.observe(Reconciled("b", "b", None, POLICY, None, LEAVES), START + SECOND)
    seen(turns, None, START + MINUTE, departure=LEAVES, uid="another")
    assert [turn.name for turn in turns.due(START + MINUTE)] == ["b", "a"]


def test_a_known_node_is_the_one_with_its_uid():
    turns, states, _ = short("a")
    assert turns.known("a", "a", POLICY) is states["a"]
    for name, uid in (("a", "another"), ("b", "b")):
        found = turns.known(name, uid, ADVISES)
        assert (found.name, found.uid, found.policy, found.record) == (name, uid, ADVISES, None)


def test_a_clock_that_is_set_back_lengthens_no_pause():
    turns, states, now = short("a")
    turn, earlier = states["a"], now - HOUR
    turn.attempted(now, 10 * HOUR)
    turn.closed_until = turn.leaves_since = now + HOUR
    turns.clock_set_back(earlier)
    assert turn.last_attempt == turn.begun == turn.leaves_since == turn.closed_until == earlier
    assert turn.not_before == earlier + POLICY.node_interval
    turns.clock_set_back(earlier - MINUTE)
    assert turn.not_before == earlier - MINUTE + POLICY.node_interval


def test_a_clock_that_is_set_back_prolongs_nothing_that_is_over():
    turns, states, now = short("a")
    turn = states["a"]
    turn.last_attempt = turn.begun = turn.leaves_since = turn.closed_until = turn.not_before = START - HOUR
    turns.clock_set_back(now)
    assert turn.last_attempt == turn.begun == turn.leaves_since == turn.closed_until == START - HOUR
    assert turn.not_before == START - HOUR


@pytest.mark.parametrize(
    ("trigger", "stamp", "passed", "has_stayed"),
    [
        (Trigger.DRAIN, "", POLICY.readmit_after - SECOND, False),
        (Trigger.DRAIN, "", POLICY.readmit_after, True),
        (Trigger.LEAVING, "", POLICY.readmit_after - SECOND, False),
        (Trigger.LEAVING, "", POLICY.readmit_after, True),
        (Trigger.LEAVING, "", dt.timedelta(), False),
        (Trigger.LEAVING, "", -SECOND, True),
        (Trigger.LEAVING, "soon", dt.timedelta(), True),
        (Trigger.MID_CPU, "", POLICY.readmit_after, False),
    ],
)
def test_a_node_without_reports_has_stayed_once_its_drain_or_departure_is_long_over(trigger, stamp, passed, has_stayed):
    turn = NodeTurn("n", "n", POLICY, record=record(trigger=trigger, time=stamp))
    assert turn.has_stayed(START + passed) is has_stayed


def test_a_node_has_not_stayed_while_it_leaves_or_a_report_shows_a_shortage_or_where_it_is_open():
    long_over = START + 100 * HOUR
    written = record(trigger=Trigger.LEAVING)
    assert NodeTurn("n", "n", POLICY, record=written).has_stayed(long_over)
    assert not NodeTurn("n", "n", POLICY, record=written, departure=LEAVES).has_stayed(long_over)
    assert not NodeTurn("n", "n", POLICY).has_stayed(long_over)
    turn = observe(Turns(), "a", 0)
    assert turn.watched.reports
    assert not turn.triggers
    turn.record = written
    assert not turn.has_stayed(long_over)


OVER = START + max(POLICY.readmit_after, POLICY.node_interval)


@pytest.mark.parametrize(
    ("policy", "departure", "trigger", "opens"),
    [
        (POLICY, STAYS, Trigger.LEAVING, True),
        (POLICY, STAYS, Trigger.MID_ONLY, False),
        (POLICY, LEAVES, Trigger.LEAVING, False),
        (DRAINS, STAYS, Trigger.LEAVING, False),
        (ADVISES, STAYS, Trigger.LEAVING, True),
        (ADVISES, LEAVES, Trigger.MID_ONLY, True),
    ],
)
def test_a_node_opens_where_nothing_evicts_from_it_any_more(policy, departure, trigger, opens):
    turns = Turns()
    turn = seen(turns, record(trigger=trigger), OVER, policy=policy, departure=departure)
    assert [each.name for each in turns.to_reopen(OVER)] == ["a"] * opens
    turn.closed_until = OVER + SECOND
    assert turns.to_reopen(OVER) == []
    assert [each.name for each in turns.to_reopen(OVER + SECOND)] == ["a"] * opens


def test_a_node_opens_when_its_pause_is_over():
    turns = Turns()
    seen(turns, record(trigger=Trigger.LEAVING), OVER).attempted(OVER, MINUTE)
    assert turns.to_reopen(OVER + MINUTE - SECOND) == []
    assert [each.name for each in turns.to_reopen(OVER + MINUTE)] == ["a"]


def test_a_reopened_node_is_not_short_by_the_cause_that_closed_it():
    turns = Turns()
    turn = seen(turns, record(trigger=Trigger.MID_ONLY), OVER)
    assert (turns.counts()["MidOnlyNode"], turns.counts()["closed"]) == (1, 1)
    turns.reopened(turn, OVER)
    assert (turns.counts()["MidOnlyNode"], turns.counts()["closed"]) == (0, 0)
    assert not turns.any_evicts(), "nothing is left to do there"


def test_one_node_that_evicts_among_those_that_advise_is_enough():
    turns = Turns()
    assert not turns.any_evicts()
    for name, policy in {"a": ADVISES, "b": POLICY, "c": ADVISES}.items():
        turns.observe(Reconciled(name, name, None, policy, record()), START)
    assert turns.any_evicts()
    turns.forget("b")
    assert not turns.any_evicts()


@pytest.mark.parametrize(("policy", "at_once"), [(POLICY, 8), (ADVISES, 1)])
def test_advice_on_a_node_that_leaves_names_one_pod_at_a_time(policy, at_once):
    turn = NodeTurn("n", "n", policy, departure=LEAVES, leaves_since=START, mid_pods=60)
    assert turn.pods_at_once(START + HOUR) == at_once
