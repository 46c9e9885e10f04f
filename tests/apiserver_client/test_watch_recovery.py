"""The next step after each failure of a watch."""

import pytest

from apiserver_client import backoff, errors, watch_recovery

CALL = errors.Call("GET", "/api/v1/pods", "watch", "pods")


def refused(kind, status=400, retry_after=None):
    return kind(CALL, status, errors.ApiStatus(), retry_after)


def after(error, failures=0):
    return watch_recovery.after(error, failures, wait=backoff.Backoff(1.0, 30.0), uniform=lambda: 0.0)


@pytest.mark.parametrize(
    ("error", "first", "second"),
    [
        (errors.Unreachable(), "go on", "go on"),
        (errors.Untrusted(), "go on", "go on"),
        (errors.NoCredentials(), "go on", "go on"),
        (refused(errors.Unauthorized), "go on", "go on"),
        (refused(errors.Forbidden), "go on", "go on"),
        (refused(errors.Throttled), "go on", "go on"),
        (refused(errors.ServerError), "go on", "go on"),
        (errors.WatchTimeout(), "go on", "list"),
        (errors.DecodeError(), "go on", "list"),
        (refused(errors.Gone), "list", "list"),
        (refused(errors.BadRequest), "list", "list"),
        (refused(errors.UnknownResource), "list", "list"),
        (refused(errors.StatusError), "list", "list"),
    ],
    ids=lambda it: it if isinstance(it, str) else type(it).__name__,
)
def test_lists_again_only_where_the_failure_affects_the_version(error, first, second):
    assert after(error, failures=0).list_again == (first == "list")
    assert after(error, failures=1).list_again == (second == "list")


def test_waits_grow_with_the_failures_in_a_row():
    assert [after(errors.Unreachable(), failures).seconds for failures in (0, 1, 2, 9)] == [0.5, 1.0, 2.0, 15.0]


@pytest.mark.parametrize(
    ("asked", "failures", "seconds"), [(7.0, 0, 7.0), (0.1, 0, 0.5), (7.0, 9, 15.0), (86400.0, 0, 60.0)]
)
def test_retry_after_lengthens_the_delay_up_to_a_limit(asked, failures, seconds):
    assert after(refused(errors.Throttled, 429, asked), failures).seconds == seconds
