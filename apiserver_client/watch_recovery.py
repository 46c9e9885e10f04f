"""What to do after a watch failed: go on or list again, and after which wait. Pure; a table in the form of a function.

| failure | next |
|---|---|
| connection lost, TLS, token or permission refused, 429, 5xx | go on from the last version: nothing happened to it |
| 410, or the apiserver finds the request itself wrong (other 4xx) | list again |
| silence, or lines that make no sense | go on; the second time in a row the version is suspect: list again |
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from apiserver_client import backoff, errors

LONGEST_RETRY_AFTER_SECONDS = 60.0
"""An apiserver asks for seconds; what asks for more is something in front of it, and not to be trusted that far."""

_SAYS_NOTHING_OF_THE_VERSION = (errors.Unauthorized, errors.Forbidden, errors.Throttled, errors.ServerError)


@dataclass(frozen=True, slots=True)
class Recovery:
    """The next step: `seconds` to wait, then a list or the same watch again."""

    list_again: bool
    seconds: float


def after(
    error: errors.ApiServerError, failures: int, *, wait: backoff.Backoff, uniform: Callable[[], float]
) -> Recovery:
    """Next step after `error`, when `failures` steps failed before it without a sign of life in between."""
    seconds = wait.seconds(failures, uniform)
    if not isinstance(error, errors.StatusError):
        in_doubt = isinstance(error, errors.WatchTimeout | errors.DecodeError)
        return Recovery(in_doubt and failures > 0, seconds)
    if error.retry_after_seconds is not None:
        seconds = max(seconds, min(error.retry_after_seconds, LONGEST_RETRY_AFTER_SECONDS))
    return Recovery(not isinstance(error, _SAYS_NOTHING_OF_THE_VERSION), seconds)
