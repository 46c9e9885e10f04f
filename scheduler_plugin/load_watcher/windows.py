"""The last snapshots of each window, and the selection of the one to serve."""

from __future__ import annotations

import collections
from collections.abc import Mapping
from typing import Final

from scheduler_plugin.load_watcher.records import DURATIONS_SECONDS, Snapshot

KEPT: Final = 5
"""Snapshots kept of each window, as in upstream's watcher."""

FALLBACKS: Final[Mapping[str, tuple[str, ...]]] = {
    "15m": ("15m", "10m", "5m"),
    "10m": ("10m", "5m"),
    "5m": ("5m",),
}
"""Requested window -> windows that can be served for it, best first."""


class NoMetrics(Exception):
    """No window can be served; the message states why."""


class Windows:
    """Snapshots by window, oldest first. There is one writer in one event loop."""

    def __init__(self, greatest_age_seconds: float) -> None:
        self._greatest_age_seconds = greatest_age_seconds
        self._snapshots: dict[str, collections.deque[Snapshot]] = {
            duration: collections.deque(maxlen=KEPT) for duration in DURATIONS_SECONDS
        }

    def store(self, snapshot: Snapshot) -> None:
        """Store a snapshot as the newest of its window. Raises KeyError for an unknown window."""
        self._snapshots[snapshot.window.duration].append(snapshot)

    def kept(self, duration: str) -> tuple[Snapshot, ...]:
        """Return the snapshots of a window, oldest first."""
        return tuple(self._snapshots[duration])

    def latest(self, duration: str, now: float) -> Snapshot:
        """Return the newest snapshot of the window, or of a shorter one, within the age limit. Raises NoMetrics."""
        candidates = FALLBACKS.get(duration)
        if candidates is None:
            raise NoMetrics(f"window is {duration!r}, want one of {', '.join(FALLBACKS)}")
        ages = []
        for name in candidates:
            if self._snapshots[name]:
                newest = self._snapshots[name][-1]
                age = now - newest.window.end
                if age <= self._greatest_age_seconds:
                    return newest
                ages.append(f"{name}: {age:.0f} s old")
        if not ages:
            raise NoMetrics(f"no provider has answered for {' or '.join(candidates)} yet")
        raise NoMetrics(f"the newest data is too old ({', '.join(ages)}; at most {self._greatest_age_seconds:.0f} s)")
