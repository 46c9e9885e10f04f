"""How long ago each watch brought something, and whether it is known to miss changes.

kopf keeps bookmarks to itself, so a quiet cluster and a dead watch look alike from here: a watch counts as silent only
where a re-list has found what it did not bring.
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
    """By plural name of a resource; `clock` gives monotonic seconds. Safe to read from any thread."""

    def __init__(self, watched: Iterable[str], clock: Callable[[], float]) -> None:
        self._clock = clock
        self._last = dict.fromkeys(watched, clock())
        self._missing: set[str] = set()
        self._lock = threading.Lock()

    def seen(self, resource: str) -> None:
        """Note an event."""
        with self._lock:
            self._last[resource] = self._clock()
            self._missing.discard(resource)

    def missed(self, resource: str) -> None:
        """Note that a re-list found a change that the watch had time to bring and did not."""
        with self._lock:
            self._missing.add(resource)

    def age_seconds(self, resource: str) -> float:
        """Time since the last event, or since the start where there was none."""
        return self._clock() - self._last[resource]

    def silent(self) -> Silence | None:
        """The watch that has been missing changes for longest; None where none does."""
        with self._lock:
            found = [Silence(resource, self.age_seconds(resource)) for resource in self._missing]
        return max(found, key=lambda silence: silence.seconds, default=None)
