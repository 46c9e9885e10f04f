"""Bound how often something happens. Pure: the caller passes the time, in seconds of a clock of its own.

`TokenBucket` lets a burst pass and then a steady rate: the Events of the manager. `SlidingWindow` counts what happened
within the last seconds, where the bound may change between two calls, or an entry is taken back: the evictions of the
cluster in a minute, the patches of the Mid pods of a node. For the pause after a failure, or between attempts that
another client refuses or reverts, see `apiserver_client.backoff`.
"""

from __future__ import annotations

import collections
from collections.abc import Iterable


class TokenBucket:
    """Bucket of at most `burst` tokens, full at first, refilled at `per_second`; a clock set back refills nothing."""

    def __init__(self, burst: int, per_second: float) -> None:
        self._burst = burst
        self._per_second = per_second
        self._tokens = float(burst)
        self._as_of: float | None = None

    def take(self, now: float) -> bool:
        """Take one token; return False where there is none."""
        passed = 0.0 if self._as_of is None else max(now - self._as_of, 0.0)
        self._tokens = min(self._tokens + passed * self._per_second, self._burst)
        self._as_of = now
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True


class SlidingWindow:
    """Times of what happened less than `seconds` ago."""

    def __init__(self, seconds: float, times: Iterable[float] = ()) -> None:
        self._seconds = seconds
        self._times = collections.deque(sorted(times))

    def count(self, now: float) -> int:
        """Return how many times are in the window; older ones are dropped."""
        while self._times and now - self._times[0] >= self._seconds:
            self._times.popleft()
        return len(self._times)

    def add(self, now: float) -> None:
        """Record that it happens now."""
        self._times.append(now)

    def remove(self, time: float) -> None:
        """Take back one entry of this time, if the window has one."""
        if time in self._times:
            self._times.remove(time)

    def clock_set_back(self, now: float) -> None:
        """Count what happened at a later time as of now."""
        self._times = collections.deque(min(time, now) for time in self._times)
