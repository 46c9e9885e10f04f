"""A monotonic clock that only the test advances."""

from __future__ import annotations


class Clock:
    """Return the time, as `time.monotonic_ns`."""

    def __init__(self) -> None:
        self.nanoseconds = 5_000_000_000

    def __call__(self) -> int:
        return self.nanoseconds

    def advance(self, seconds: float) -> None:
        self.nanoseconds += round(seconds * 1e9)
