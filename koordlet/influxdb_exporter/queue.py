"""Bounded queue of points. Adding never blocks; the oldest points are dropped when it is full.

The newest points are worth most: a dashboard shows the present, and a long outage leaves one gap, not many small ones.
"""

from __future__ import annotations

import collections
import enum
import threading
from collections.abc import Sequence


class DropReason(enum.StrEnum):
    """Why a point was never written."""

    QUEUE_FULL = "queue_full"
    REFUSED = "refused"  # rejected by the server for good: malformed, or a field of another type
    SHUTDOWN = "shutdown"  # still queued when the time to drain was over


class PointQueue:
    """A queue of lines between one thread that adds and one that takes.

    Lines that were taken are counted in `depth` until `done`, `refused` or `put_back`, so every line is accounted for:
    added = written + dropped + depth, always.
    """

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.added = 0
        self.written = 0
        self.dropped: dict[DropReason, int] = dict.fromkeys(DropReason, 0)
        self._waiting: collections.deque[str] = collections.deque()
        self._taken: Sequence[str] = ()
        self._lock = threading.Lock()

    @property
    def depth(self) -> int:
        """Number of points that are queued or in flight, at most `capacity` and one batch."""
        return len(self._waiting) + len(self._taken)

    def add(self, lines: Sequence[str]) -> None:
        """Add points, and drop the oldest ones beyond the capacity."""
        with self._lock:
            self.added += len(lines)
            self._waiting.extend(lines)
            self._shed()

    def take(self, most: int) -> Sequence[str]:
        """Return at most `most` of the oldest points. They are in flight until `done`, `refused` or `put_back`."""
        with self._lock:
            self._taken = [self._waiting.popleft() for _ in range(min(most, len(self._waiting)))]
            return self._taken

    def done(self) -> None:
        """Count the points in flight as written."""
        with self._lock:
            self.written += len(self._taken)
            self._taken = ()

    def refused(self) -> None:
        """Drop the points in flight, which can never be written."""
        with self._lock:
            self.dropped[DropReason.REFUSED] += len(self._taken)
            self._taken = ()

    def put_back(self) -> None:
        """Queue the points in flight again, as the oldest ones."""
        with self._lock:
            self._waiting.extendleft(reversed(self._taken))
            self._taken = ()
            self._shed()

    def abandon(self) -> int:
        """Drop all points, and return their number."""
        with self._lock:
            dropped = self.depth
            self.dropped[DropReason.SHUTDOWN] += dropped
            self._waiting.clear()
            self._taken = ()
            return dropped

    def _shed(self) -> None:
        while len(self._waiting) > self.capacity:
            self._waiting.popleft()
            self.dropped[DropReason.QUEUE_FULL] += 1
