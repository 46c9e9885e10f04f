"""The rate of evictions in the cluster, and the pauses of refused pods, at their bounds."""

import datetime as dt

import pytest

from apiserver_client import errors
from manager.metrics.collectors import AttemptResult
from manager.mid_resource.eviction import pace
from manager.mid_resource.eviction import pace as paces
from manager.mid_resource.eviction.nodes import Refusals
from manager.mid_resource.eviction.pace import ClusterPace, NewlyEvicted

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


def test_a_refused_pod_waits_twice_as_long_each_time_up_to_five_minutes():
    refusals, now, pauses = Refusals(), NOON, []
    for _ in range(6):
        pause = refusals.add("a", "tenant", now)
        assert refusals.waits("a", now + pause - dt.timedelta(microseconds=1))
        now += pause
        assert not refusals.waits("a", now)
        pauses.append(pause.total_seconds())
    assert pauses == [30, 60, 120, 240, 300, 300]


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


def test_of_too_many_pods_those_that_were_evicted_longest_ago_are_dropped(monkeypatch):
    monkeypatch.setattr(paces, "_MOST_EVICTED", 3)
    evicted = NewlyEvicted()
    for second, uid in enumerate("abcad"):
        evicted.add(uid, after(second))
    assert list(evicted.uids(after(5))) == ["c", "a", "d"]


CALL = errors.Call("POST", "/api/v1/namespaces/a/pods/p/eviction", "create", "pods/eviction")
BUDGET, OTHER = errors.StatusCause(reason="DisruptionBudget", message="needs 2"), errors.StatusCause(reason="Other")


def answered(kind, status, *causes, **more):
    return kind(CALL, status, errors.ApiStatus(details=errors.Details(causes=causes), **more), None)


OVERLAP = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."


@pytest.mark.parametrize(
    ("error", "result"),
    [
        (answered(errors.NotFound, 404), AttemptResult.GONE),
        (answered(errors.Conflict, 409), AttemptResult.GONE),
        (answered(errors.Forbidden, 403), AttemptResult.FORBIDDEN),
        (answered(errors.Throttled, 429, BUDGET), AttemptResult.REFUSED),
        (answered(errors.Throttled, 429, OTHER, BUDGET), AttemptResult.REFUSED),
        (answered(errors.Throttled, 429, OTHER), AttemptResult.FAILED),
        (answered(errors.Throttled, 429), AttemptResult.FAILED),
        (answered(errors.StatusError, 400), AttemptResult.REFUSED),
        (answered(errors.Invalid, 422), AttemptResult.REFUSED),
        (answered(errors.ServerError, 500, message=OVERLAP), AttemptResult.REFUSED),
        (answered(errors.ServerError, 500, message=OVERLAP, reason="InternalError"), AttemptResult.FAILED),
        (answered(errors.ServerError, 500, message="etcdserver: request timed out"), AttemptResult.FAILED),
        (answered(errors.ServerError, 500), AttemptResult.FAILED),
        (answered(errors.ServerError, 504, message=OVERLAP), AttemptResult.FAILED),
        (answered(errors.ServerError, 503), AttemptResult.FAILED),
        (answered(errors.Unauthorized, 401), AttemptResult.FAILED),
        (errors.Unreachable("connection lost"), AttemptResult.FAILED),
    ],
)
def test_only_what_concerns_the_pod_itself_is_a_refusal(error, result):
    assert pace.classify(error) is result
