"""The rate of evictions in the cluster, and the pauses of refused pods, at their bounds."""

import datetime as dt

import pytest

from manager.mid_resource.eviction import pace as paces
from manager.mid_resource.eviction.pace import ClusterPace, NewlyEvicted, Refusals

NOON = dt.datetime(2026, 11, 21, 12, tzinfo=dt.UTC)


def after(seconds):
    return NOON + dt.timedelta(seconds=seconds)


def attempted(*seconds, refused=()):
    pace = ClusterPace()
    for each in seconds:
        pace.attempted(after(each))
    for each in refused:
        pace.refused(after(each))
    return pace


@pytest.mark.parametrize(
    ("seconds", "now", "room"),
    [
        ((), 0, 5),
        ((0, 1), 1, 3),
        ((0, 1, 2, 3, 4), 4, 0),
        ((0, 1, 2, 3, 4, 5, 6), 6, 0),
        ((0, 1, 2, 3, 4), 59.9, 0),
        ((0, 1, 2, 3, 4), 60, 1),
        ((0, 1, 2, 3, 4), 64, 5),
    ],
)
def test_there_is_room_for_as_many_evictions_as_a_minute_may_have(seconds, now, room):
    assert attempted(*seconds).room(5, after(now)) == room


def test_refused_attempts_leave_room_until_they_are_three_times_as_many():
    pace = ClusterPace()
    rooms = []
    for second in range(7):
        rooms.append(pace.room(2, after(second)))
        pace.attempted(after(second))
        pace.refused(after(second))
    assert rooms == [2, 2, 2, 2, 2, 1, 0]
    assert pace.room(2, after(60)) == 0, "7 attempts less the first are 6"
    assert pace.room(2, after(61)) == 1


def test_a_refusal_gives_back_the_attempt_of_its_time_only():
    assert attempted(0, 1, 2, refused=[1]).room(3, after(2)) == 1
    assert attempted(0, 1, 2, refused=[9]).room(3, after(2)) == 0
    forgotten = attempted(0)
    assert forgotten.room(3, after(60)) == 3
    forgotten.refused(NOON)
    assert forgotten.room(3, after(60)) == 3


def test_the_evictions_of_an_earlier_leader_count_in_any_order_and_are_no_attempts():
    pace = ClusterPace()
    pace.restore([after(30), after(0), after(10)])
    assert [pace.room(3, after(now)) for now in (30, 60, 70, 90)] == [0, 1, 2, 3]
    pace.restore([after(90)] * 3)
    for _ in range(3):
        pace.refused(after(90))
    assert pace.room(1, after(90)) == 1


def test_after_the_clock_was_set_back_only_what_happened_later_counts_as_of_now():
    pace = attempted(0, 40)
    pace.clock_set_back(after(10))
    assert [pace.room(2, after(now)) for now in (10, 59, 60, 69, 70)] == [0, 0, 1, 1, 2]
    refused = attempted(0, 40, 40, refused=[0, 40, 40])
    refused.clock_set_back(after(10))
    assert [refused.room(1, after(now)) for now in (10, 59, 60, 69, 70)] == [0, 0, 1, 1, 1]


def test_a_refused_pod_waits_twice_as_long_each_time_up_to_five_minutes():
    refusals, now, pauses = Refusals(), NOON, []
    for _ in range(6):
        pause = refusals.add("a", now)
        assert refusals.waits("a", now + pause - dt.timedelta(microseconds=1))
        now += pause
        assert not refusals.waits("a", now)
        pauses.append(pause.total_seconds())
    assert pauses == [30, 60, 120, 240, 300, 300]


@pytest.mark.parametrize(("seconds_more", "pause"), [(600, 60), (600.5, 30)])
def test_a_pod_that_was_not_tried_for_more_than_ten_minutes_after_its_pause_begins_again(seconds_more, pause):
    refusals = Refusals()
    refusals.add("a", NOON)
    later = after(30 + seconds_more)
    assert not refusals.waits("a", later)
    assert refusals.has("a") is (pause == 60)
    assert refusals.add("a", later).total_seconds() == pause


def test_a_pause_that_a_caller_asks_for_is_the_least_one_and_the_next_is_twice_that():
    refusals = Refusals()
    assert refusals.add("a", NOON, dt.timedelta(seconds=50)).total_seconds() == 50
    assert refusals.add("a", NOON, dt.timedelta(seconds=50)).total_seconds() == 100
    assert refusals.add("b", NOON, dt.timedelta(seconds=20)).total_seconds() == 30


def test_after_the_clock_was_set_back_no_pause_is_longer_than_a_new_one():
    refusals = Refusals()
    for uid, at in (("early", -20), ("late", 3600)):
        refusals.add(uid, after(at))
    refusals.clock_set_back(NOON)
    assert [refusals.waits("early", after(now)) for now in (9, 10)] == [True, False]
    assert [refusals.waits("late", after(now)) for now in (29, 30)] == [True, False]


def test_a_pod_counts_as_newly_evicted_for_five_minutes():
    evicted = NewlyEvicted()
    evicted.add("a", NOON)
    evicted.add("b", after(1))
    assert set(evicted.uids(after(300))) == {"a", "b"}
    assert set(evicted.uids(after(300.5))) == {"b"}
    evicted.add("c", after(3600))
    evicted.clock_set_back(after(301))
    assert set(evicted.uids(after(301))) == {"b", "c"}
    assert set(evicted.uids(after(601))) == {"c"}
    assert set(evicted.uids(after(602))) == set()


def test_a_pod_that_was_not_refused_or_is_gone_does_not_wait():
    refusals = Refusals()
    refusals.add("a", NOON)
    assert [refusals.waits(uid, NOON) for uid in ("a", "b")] == [True, False]
    refusals.forget("a")
    assert (refusals.waits("a", NOON), refusals.has("a")) == (False, False)


def test_of_too_many_pods_those_that_were_refused_or_evicted_longest_ago_are_dropped(monkeypatch):
    monkeypatch.setattr(paces, "_MOST_REFUSED", 3)
    monkeypatch.setattr(paces, "_MOST_EVICTED", 3)
    refusals, evicted = Refusals(), NewlyEvicted()
    for second, uid in enumerate("abcad"):
        refusals.add(uid, after(second))
        evicted.add(uid, after(second))
    assert [uid for uid in "abcd" if refusals.has(uid)] == ["a", "c", "d"]
    assert list(evicted.uids(after(5))) == ["c", "a", "d"]
