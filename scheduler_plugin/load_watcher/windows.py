"""The last snapshots of each window, and which of them answers a question."""

from __future__ import annotations

import collections
from collections.abc import Mapping
from typing import Final

from scheduler_plugin.load_watcher.records import DURATIONS_SECONDS, Snapshot

KEPT: Final = 5
"""Snapshots kept of each window, as upstream."""

FALLBACKS: Final[Mapping[str, tuple[str, ...]]] = {
    "15m": ("15m", "10m", "5m"),
    "10m": ("10m", "5m"),
    "5m": ("5m",),
}
"""Window asked for -> windows that may answer, best first."""


class NoMetrics(Exception):
    """No window can answer; the message says why."""


class Windows:
    """Snapshots by window, oldest first. One writer, one event loop."""

    def __init__(self, greatest_age_seconds: float) -> None:
        self._greatest_age_seconds = greatest_age_seconds
        self._snapshots: dict[str, collections.deque[Snapshot]] = {
            duration: collections.deque(maxlen=KEPT) for duration in DURATIONS_SECONDS
        }

    def store(self, snapshot: Snapshot) -> None:
        """Keep a snapshot as the newest of its window. Raises KeyError for a window that is not kept."""
        self._snapshots[snapshot.window.duration].append(snapshot)

    def kept(self, duration: str) -> tuple[Snapshot, ...]:
        """Every kept snapshot of a window, oldest first."""
        return tuple(self._snapshots[duration])

    def latest(self, duration: str, now: float) -> Snapshot:
        """The newest snapshot of the window or of a shorter one, never older than the bound. Raises NoMetrics."""
        wanted = FALLBACKS.get(duration)
        if wanted is None:
            raise NoMetrics(f"window {duration!r} is not kept, wanted one of {', '.join(FALLBACKS)}")
        ages = []
        for name in wanted:
            if self._snapshots[name]:
                newest = self._snapshots[name][-1]
                age = now - newest.window.end
                if age <= self._greatest_age_seconds:
                    return newest
                ages.append(f"{name}: {age:.0f} s old")
        if not ages:
            raise NoMetrics(f"no provider has answered for {' or '.join(wanted)} yet")
        raise NoMetrics(f"the newest data is too old ({', '.join(ages)}; at most {self._greatest_age_seconds:.0f} s)")
