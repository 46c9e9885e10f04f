"""The begin of a period, written by an earlier leader whose clock may differ a little."""

import datetime as dt

import pytest

from api_types import names
from api_types.kubernetes import times
from api_types.node_metric import mid_status
from manager.cache.store import NodeStore
from manager.mid_resource.shrinking import Period, Periods

NOON = dt.datetime(2026, 11, 21, 12, tzinfo=dt.UTC)


def node(since=None, uid="u"):
    status = mid_status.MidStatus(
        time="2026-11-21T11:00:00Z", reason="Withdrawn", floor_before=times.format_rfc3339(since) if since else None
    )
    annotations = {names.ANNOTATION_MID_STATUS: mid_status.encode(status)}
    nodes = NodeStore()
    nodes.update(nodes.decode({"metadata": {"name": "n1", "uid": uid, "annotations": annotations}}))
    return nodes.get("n1")


@pytest.mark.parametrize("ahead", [-3600, -4, 0, 4, 5])
def test_a_new_leader_continues_a_period_that_began_just_now(ahead):
    since = NOON + dt.timedelta(seconds=ahead)
    periods = Periods()
    assert periods.continue_or_begin(node(since), NOON, NOON) == Period("u", since, None)
    later = NOON + dt.timedelta(minutes=1)
    assert periods.continue_or_begin(node(), later, later) == Period("u", since, None)


@pytest.mark.parametrize("ahead", [6, 3600])
def test_a_period_of_the_future_begins_now(ahead):
    since = NOON + dt.timedelta(seconds=ahead)
    assert Periods().continue_or_begin(node(since), NOON, NOON) == Period("u", NOON, NOON)


@pytest.mark.parametrize(("back", "continues"), [(5, True), (6, False)])
def test_a_clock_that_is_set_back_by_more_than_5_s_begins_the_period_again(back, continues):
    periods = Periods()
    periods.continue_or_begin(node(), NOON, NOON)
    earlier = NOON - dt.timedelta(seconds=back)
    found = periods.continue_or_begin(node(), earlier, earlier)
    assert found.since == (NOON if continues else earlier)


def test_an_ended_period_is_not_restored_from_the_annotation_and_that_of_a_forgotten_node_is():
    since, later = NOON - dt.timedelta(minutes=5), NOON + dt.timedelta(minutes=1)
    periods = Periods()
    periods.continue_or_begin(node(since), NOON, NOON)
    periods.end("n1")
    assert periods.continue_or_begin(node(since), later, later).since == later
    periods.forget("n1")
    assert periods.continue_or_begin(node(since), later, later).since == since


def test_a_node_that_is_created_again_has_a_period_of_its_own():
    periods = Periods()
    periods.continue_or_begin(node(), NOON, NOON)
    later = NOON + dt.timedelta(minutes=1)
    assert periods.continue_or_begin(node(uid="another"), later, None) == Period("another", later, None)
