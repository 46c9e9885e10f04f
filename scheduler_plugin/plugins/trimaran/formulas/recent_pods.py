"""Recently placed pods: the share of their usage that the mean over a window does not contain.

A pod that ran for `overlap` seconds of a window contributes overlap / window of its usage to the mean. The rest,
predicted * (1 - overlap / window), has to be added.
"""

from __future__ import annotations

from typing import Final

SHORTEST_WINDOW_SECONDS: Final = 60.0
"""Containers start some time after the pod was placed, so a shorter window is counted as this one."""
_SHIPPED_SECONDS: Final = 60.0


def unmeasured_share(placed_at: float, window_end: float, window_seconds: float) -> float:
    """Return the share, 0 to 1, that a window does not contain of a pod; 1 without a window (its end is -inf)."""
    overlap_seconds = max(0.0, window_end - placed_at)
    return max(0.0, 1.0 - overlap_seconds / max(window_seconds, SHORTEST_WINDOW_SECONDS))


def shipped_share(placed_at: float, window_end: float) -> float:
    """Return upstream's share: all of a pod placed less than 60 s before the end of the window, nothing of others."""
    return 1.0 if window_end - placed_at < _SHIPPED_SECONDS else 0.0
