import datetime as dt

import pytest

from manager import lease
from manager.lease import LeaseSpec, ObservedLease

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
def test_a_lease_is_free_when_no_renewal_is_observed(spec, waited, free):
    assert lease.is_free(ObservedLease(spec, 100.0), 100.0 + waited) is free


def test_the_wait_starts_again_with_every_renewal():
    first = lease.observe(None, THEIRS, 100.0)
    assert lease.observe(first, THEIRS, 110.0).since_seconds == 100.0
    renewed = LeaseSpec(holder_identity="them", lease_duration_seconds=15, renew_time="t2", lease_transitions=3)
    assert lease.observe(first, renewed, 110.0).since_seconds == 110.0


def test_a_transition_is_counted_and_a_renewal_is_not():
    taken = lease.held_by("us", THEIRS, 15.0, NOW)
    assert (taken.holder_identity, taken.lease_transitions, taken.acquire_time) == (
        "us",
        4,
        "2026-11-21T12:00:00.123456Z",
    )
    renewed = lease.held_by("us", taken, 15.0, NOW + dt.timedelta(seconds=2))
    assert (renewed.lease_transitions, renewed.acquire_time) == (4, taken.acquire_time)
    assert renewed.renew_time == "2026-11-21T12:00:02.123456Z"


def test_the_first_holder_is_no_transition():
    assert lease.held_by("us", None, 15.0, NOW).lease_transitions == 0


def test_a_released_lease_is_free_at_once():
    given = lease.released(lease.held_by("us", THEIRS, 15.0, NOW), NOW)
    assert lease.is_free(ObservedLease(given, 0.0), 0.0)
    assert given.lease_transitions == 4
