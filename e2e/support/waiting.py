"""Waiting for something to become so, with a deadline and a message of what was seen last."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from kubernetes.client.exceptions import ApiException

from tools.localcluster.errors import ClusterProblem

T = TypeVar("T")

_SHOWN_CHARACTERS = 1500


class NotSo(AssertionError):
    """What was waited for did not happen."""


def until(
    what: str,
    look: Callable[[], T],
    accept: Callable[[T], object] = bool,
    *,
    within_seconds: float = 60.0,
    every_seconds: float = 0.5,
    show: Callable[[T], str] = repr,
) -> T:
    """Look until what is seen is accepted, and return it.

    A refused or failed look counts as seen and is repeated: what is waited for may not exist yet. Raises NotSo, with
    what was seen last as `show` puts it.
    """
    deadline = time.monotonic() + within_seconds
    while True:
        try:
            value = look()
            if accept(value):
                return value
            seen = show(value)
        except (ApiException, ClusterProblem, LookupError) as problem:
            seen = f"{type(problem).__name__}: {problem}"
        if time.monotonic() > deadline:
            raise NotSo(f"{what}: not so within {within_seconds:.0f} s; last seen: {_shortened(seen)}")
        time.sleep(every_seconds)


def _shortened(text: str) -> str:
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]} ... ({len(text)} characters)"
