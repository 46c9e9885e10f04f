"""Points that wait to be written: so many and no more. Whoever adds never waits; the oldest make room.

The newest are worth most: a dashboard shows the present, and a long outage leaves one hole, not many small ones.
"""

from __future__ import annotations

import collections
import enum
import threading
from collections.abc import Sequence


class DropReason(enum.StrEnum):
    """Why a point was never written."""

    QUEUE_FULL = "queue_full"
    REFUSED = "refused"  # the server can never take it: malformed, or a field of another type
    SHUTDOWN = "shutdown"  # still waiting when the time to drain was over


class PointQueue:
    """A queue of lines between one thread that adds and one that takes.

    Lines that were taken are remembered until they are `done` or put back, so that `depth` counts them and nothing is
    lost uncounted: added = written + dropped + depth, always.
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
        """Points that wait or are on their way, at most `capacity` and one batch."""
        return len(self._waiting) + len(self._taken)

    def add(self, lines: Sequence[str]) -> None:
        """Add points, the oldest of all giving way where there is no room."""
        with self._lock:
            self.added += len(lines)
            self._waiting.extend(lines)
            self._shed()

    def take(self, most: int) -> Sequence[str]:
        """The oldest points, at most so many. They are on their way until `done`, `refused` or `put_back`."""
        with self._lock:
            self._taken = [self._waiting.popleft() for _ in range(min(most, len(self._waiting)))]
            return self._taken

    def done(self) -> None:
        """The points on their way were written."""
        with self._lock:
            self.written += len(self._taken)
            self._taken = ()

    def refused(self) -> None:
        """The points on their way can never be written."""
        with self._lock:
            self.dropped[DropReason.REFUSED] += len(self._taken)
            self._taken = ()

    def put_back(self) -> None:
        """The points on their way were not written: they are the oldest again."""
        with self._lock:
            self._waiting.extendleft(reversed(self._taken))
            self._taken = ()
            self._shed()

    def abandon(self) -> int:
        """Give up everything that is left, and return how many points that were."""
        with self._lock:
            left = self.depth
            self.dropped[DropReason.SHUTDOWN] += left
            self._waiting.clear()
            self._taken = ()
            return left

    def _shed(self) -> None:
        while len(self._waiting) > self.capacity:
            self._waiting.popleft()
            self.dropped[DropReason.QUEUE_FULL] += 1
