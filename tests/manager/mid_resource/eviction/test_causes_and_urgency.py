"""What evicts from a node, and which node comes first by its cause. Pure."""

import dataclasses
import datetime as dt

import pytest

from api_types.node_metric.mid_eviction import MidEvictionRecord
from manager.mid_resource.decision import STAYS, Departure
from manager.mid_resource.eviction.nodes import NodeTurn, Reconciled, Turns, causes
from manager.mid_resource.eviction.shortage import Trigger
from manager.mid_resource.reasons import Closed
from tests.manager.mid_resource.eviction.test_turns import POLICY, START, short

LEAVES, CORDONED = Departure(Closed.LEAVING, "deletionTimestamp"), Departure(Closed.CORDONED, "")
FROZEN = dataclasses.replace(POLICY, is_frozen=True)
CPU, MEMORY = Trigger.MID_CPU, Trigger.NODE_MEMORY


def closed_by(trigger):
    return MidEvictionRecord(time="2026-11-21T12:00:00Z", since="2026-11-21T12:00:00Z", trigger=trigger)


@pytest.mark.parametrize(
    ("policy", "record", "departure", "expected"),
    [
        (POLICY, None, STAYS, {CPU, MEMORY}),
        (dataclasses.replace(POLICY, mode="off"), None, LEAVES, set()),
        (dataclasses.replace(POLICY, drains=True), None, LEAVES, {Trigger.LEAVING}),
        (dataclasses.replace(POLICY, drains=True), None, STAYS, {Trigger.DRAIN}),
        (POLICY, None, CORDONED, {MEMORY}),
        (FROZEN, None, STAYS, {CPU, MEMORY}),
        (FROZEN, closed_by(CPU), STAYS, {CPU, MEMORY}),
        (FROZEN, closed_by(Trigger.MID_ONLY), STAYS, {MEMORY}),
        (POLICY, closed_by(Trigger.MID_ONLY), CORDONED, {MEMORY}),
        (POLICY, closed_by(Trigger.MID_ONLY), STAYS, {Trigger.MID_ONLY}),
        (POLICY, closed_by(Trigger.DRAIN), STAYS, {CPU, MEMORY}),
    ],
)
def test_one_cause_that_concerns_every_mid_pod_has_precedence_over_shortages(policy, record, departure, expected):
    assert causes(frozenset({CPU, MEMORY}), policy, record, departure) == expected


def test_nodes_that_leave_come_first_and_emptied_ones_last_whenever_they_were_tried():
    turns, states, now = short("a")
    states["a"].last_attempt = now - dt.timedelta(minutes=1)
    for minutes, (name, record, departure) in enumerate([
        ("leaving", None, LEAVES),
        ("mid-only", closed_by(Trigger.MID_ONLY), STAYS),
    ]):  # fmt: skip
        turn = turns.observe(Reconciled(name, name, None, POLICY, record, departure), START)
        turn.last_attempt, turn.not_before = now - dt.timedelta(minutes=2 * minutes), START
    assert [turn.name for turn in turns.due(now)] == ["leaving", "a", "mid-only"]


def leaving(**more):
    return NodeTurn("n", "n", POLICY, departure=LEAVES, leaves_since=START, **more)


@pytest.mark.parametrize(
    ("seconds", "pods", "pause", "at_once"),
    [
        (0, 1, 12, 1),
        (0, 10, 6, 1),
        (0, 100, 0.6, 2),
        (0, 1000, 0.06, 8),
        (30, 60, 0.5, 2),
        (60, 60, 0, 8),
        (90, 60, 0, 8),
        (90, 3, 0, 3),
        (90, 0, 0, 1),
    ],
)
def test_the_pods_of_a_node_that_leaves_share_its_minute_and_wait_a_tenth_of_the_interval_at_most(
    seconds, pods, pause, at_once
):
    now, turn = START + dt.timedelta(seconds=seconds), leaving(mid_pods=pods)
    assert turn.interval(now) == dt.timedelta(seconds=pause)
    assert turn.pods_at_once(now) == at_once


@pytest.mark.parametrize("pods", [0, 1])
def test_the_last_pod_of_a_node_that_leaves_has_the_whole_minute(pods):
    rare = dataclasses.replace(POLICY, node_interval=dt.timedelta(hours=1))
    turn = NodeTurn("n", "n", rare, departure=LEAVES, leaves_since=START, mid_pods=pods)
    assert turn.interval(START + dt.timedelta(seconds=20)) == dt.timedelta(seconds=40)


def test_a_node_whose_pods_were_not_listed_yet_has_one_to_ask():
    assert leaving().pods_at_once(START + dt.timedelta(minutes=2)) == 1
    assert NodeTurn("n", "n", POLICY, mid_pods=100).pods_at_once(START) == 1, "only those of a node that leaves hurry"


@pytest.mark.parametrize(
    ("record", "expected"),
    [(None, False), (closed_by(CPU), False), (closed_by(Trigger.MID_ONLY), True)],
)
def test_a_node_is_emptied_where_it_was_closed_for_the_autoscaler(record, expected):
    turn = NodeTurn("n", "n", POLICY, record=record)
    assert turn.is_emptied is expected
    assert turn.interval(START) == dt.timedelta(seconds=12 if expected else 120)


def test_emptied_nodes_are_those_that_are_closed_for_the_autoscaler():
    turns = Turns()
    for name, record in {"a": closed_by(CPU), "b": closed_by(Trigger.MID_ONLY)}.items():
        turns.observe(Reconciled(name, name, None, POLICY, record), START)
    assert [turn.name for turn in turns.emptied()] == ["b"]
