"""Poll the cluster until a condition holds, with a time limit and a message with the value seen last."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from kubernetes.client.exceptions import ApiException

from tools.localcluster.errors import ClusterProblem

T = TypeVar("T")

_SHOWN_CHARACTERS = 1500


class TimeLimitExceeded(AssertionError):
    """A condition did not hold within the time limit."""


def until(
    what: str,
    read: Callable[[], T],
    accept: Callable[[T], object] = bool,
    *,
    within_seconds: float = 60.0,
    every_seconds: float = 0.5,
    show: Callable[[T], str] = repr,
) -> T:
    """Read until the value is accepted, and return it.

    A failed read is repeated, because the object may not exist yet. Raises TimeLimitExceeded, with the value seen last
    as `show` formats it.
    """
    deadline = time.monotonic() + within_seconds
    while True:
        try:
            value = read()
            if accept(value):
                return value
            seen = show(value)
        except (ApiException, ClusterProblem, LookupError) as problem:
            seen = f"{type(problem).__name__}: {problem}"
        if time.monotonic() > deadline:
            raise TimeLimitExceeded(f"{what}: not so within {within_seconds:.0f} s; last seen: {_shortened(seen)}")
        time.sleep(every_seconds)


def _shortened(text: str) -> str:
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]} ... ({len(text)} characters)"
