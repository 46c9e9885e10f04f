import datetime as dt

import pytest

from manager.leader_election import lease
from manager.leader_election.lease import LeaseSpec, Sighting

NOW = dt.datetime(2026, 11, 21, 12, 0, 0, 123456, tzinfo=dt.UTC)
THEIRS = LeaseSpec(holder_identity="them", lease_duration_seconds=15, renew_time="t1", lease_transitions=3)


@pytest.mark.parametrize(
    ("spec", "waited", "free"),
    [
        (THEIRS, 15.0, False),
        (THEIRS, 15.1, True),
        (LeaseSpec(holder_identity=""), 0.0, True),
        (LeaseSpec(), 0.0, True),
    ],
)
def test_a_lease_is_free_when_nobody_renews_it_before_our_eyes(spec, waited, free):
    assert lease.is_free(Sighting(spec, 100.0), 100.0 + waited) is free


def test_the_wait_starts_anew_with_every_renewal():
    first = lease.sight(None, THEIRS, 100.0)
    assert lease.sight(first, THEIRS, 110.0).since_seconds == 100.0
    renewed = LeaseSpec(holder_identity="them", lease_duration_seconds=15, renew_time="t2", lease_transitions=3)
    assert lease.sight(first, renewed, 110.0).since_seconds == 110.0


def test_a_take_over_is_counted_and_a_renewal_is_not():
    taken = lease.held(THEIRS, "us", 15.0, NOW)
    assert (taken.holder_identity, taken.lease_transitions, taken.acquire_time) == (
        "us",
        4,
        "2026-11-21T12:00:00.123456Z",
    )
    renewed = lease.held(taken, "us", 15.0, NOW + dt.timedelta(seconds=2))
    assert (renewed.lease_transitions, renewed.acquire_time) == (4, taken.acquire_time)
    assert renewed.renew_time == "2026-11-21T12:00:02.123456Z"


def test_the_first_holder_takes_over_from_nobody():
    assert lease.held(None, "us", 15.0, NOW).lease_transitions == 0


def test_what_is_given_up_is_free_at_once():
    given = lease.given_up(lease.held(THEIRS, "us", 15.0, NOW), NOW)
    assert lease.is_free(Sighting(given, 0.0), 0.0)
    assert given.lease_transitions == 4
