"""Prod pods that get too little CPU while the node as a whole has idle CPU: throttled, or waiting for a CPU.

Both are read once a minute. The kernel counts the time in which tasks of a pod waited for a CPU on cgroup v2 only. A
pod whose own limit is too small waits as well: limits of Mid pods then fall to what is allowed, and no further.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

LEAST_WAITING_RATIO: Final = 0.25
"""Smallest share of the time in which a task of a waiting pod has no CPU; the same as of throttled periods."""
STALE_SECONDS: Final = 150.0
"""Time after which a counter that stays as it is was read again, at 60 ticks a reading, and means no waiting."""


class CpuWaits:
    """Waiting of pods, from their counters of waited seconds."""

    def __init__(self) -> None:
        self._changed: dict[str, tuple[float, float]] = {}
        """UID -> time at which its counter was seen to change, and the counter."""
        self._ratios: dict[str, float] = {}

    def waiting(self, now_seconds: float, waited_seconds: Mapping[str, float]) -> frozenset[str]:
        """Return the pods that wait for a CPU, by UID. Times are of a monotonic clock."""
        for gone in self._changed.keys() - waited_seconds.keys():
            del self._changed[gone]
            self._ratios.pop(gone, None)
        for uid, waited in waited_seconds.items():
            at, before = self._changed.get(uid, (now_seconds, waited))
            if waited == before:
                if now_seconds - at >= STALE_SECONDS:
                    self._ratios.pop(uid, None)
                self._changed.setdefault(uid, (now_seconds, waited))
                continue
            self._changed[uid] = now_seconds, waited
            if waited > before and now_seconds > at:  # a counter below its last value is that of another group
                self._ratios[uid] = (waited - before) / (now_seconds - at)
            else:
                self._ratios.pop(uid, None)
        return frozenset(uid for uid, ratio in self._ratios.items() if ratio >= LEAST_WAITING_RATIO)
