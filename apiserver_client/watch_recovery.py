"""Decide after a failed watch whether to resume or to list again, and after which delay.

| failure | next |
|---|---|
| connection lost, TLS, token or permission refused, 429, 5xx | resume from the last version, which is still valid |
| 410, or the apiserver rejects the request itself (other 4xx) | list again |
| silence, or malformed lines | resume; the second time in a row the version is suspect: list again |
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from apiserver_client import backoff, errors

_UNRELATED_TO_THE_VERSION = (errors.Unauthorized, errors.Forbidden, errors.Throttled, errors.ServerError)


@dataclass(frozen=True, slots=True)
class Recovery:
    """The next step: `seconds` to wait, then a list or the same watch again."""

    list_again: bool
    seconds: float


def after(
    error: errors.ApiServerError, failures: int, *, wait: backoff.Backoff, uniform: Callable[[], float]
) -> Recovery:
    """Return the next step after `error`, when `failures` steps in a row failed before it."""
    seconds = wait.seconds(failures, uniform)
    if not isinstance(error, errors.StatusError):
        in_doubt = isinstance(error, errors.WatchTimeout | errors.DecodeError)
        return Recovery(in_doubt and failures > 0, seconds)
    if error.retry_after_seconds is not None:
        seconds = max(seconds, error.retry_after_seconds)
    return Recovery(not isinstance(error, _UNRELATED_TO_THE_VERSION), seconds)
