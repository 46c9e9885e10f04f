"""Age of the last event of each watch, and whether the watch is known to miss changes.

kopf does not pass bookmarks on, so handlers cannot distinguish a quiet cluster from a dead watch. A watch counts as
silent only where a resync has found a change that the watch did not deliver.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import NamedTuple


class Silence(NamedTuple):
    """A watch that misses changes, and the time since its last event."""

    resource: str
    seconds: float


class WatchAges:
    """Ages by plural name of the resource; `clock` returns monotonic seconds. Thread-safe."""

    def __init__(self, watched: Iterable[str], clock: Callable[[], float]) -> None:
        self._clock = clock
        self._last = dict.fromkeys(watched, clock())
        self._missing: set[str] = set()
        self._lock = threading.Lock()

    def seen(self, resource: str) -> None:
        """Record an event."""
        with self._lock:
            self._last[resource] = self._clock()
            self._missing.discard(resource)

    def missed(self, resource: str) -> None:
        """Record that a resync found a change that the watch had time to deliver and did not."""
        with self._lock:
            self._missing.add(resource)

    def age_seconds(self, resource: str) -> float:
        """Return the time since the last event, or since the start where there was none."""
        return self._clock() - self._last[resource]

    def silent(self) -> Silence | None:
        """Return the watch that has missed changes for longest; None where no watch misses any."""
        with self._lock:
            found = [Silence(resource, self.age_seconds(resource)) for resource in self._missing]
        return max(found, key=lambda silence: silence.seconds, default=None)
