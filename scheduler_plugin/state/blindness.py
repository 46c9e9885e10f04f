"""Decide whether reports expire because this process does not see them. Pure.

One silent agent makes its own node expire, and the filter rejects that node. If this process loses its watch, or most
agents fall silent at once (a bad release of the agent), rejecting the expired nodes would stop all scheduling. Then
expired nodes pass, as if LoadAwareScheduling had no limits.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from scheduler_plugin.state.node_columns import Floats

SILENT_SECONDS: Final = 90.0
"""The apiserver sends a bookmark about once a minute, so a working watch is never silent for so long."""


def count_expired(updated_at: Floats, expiration_seconds: float, now: float) -> int:
    """Count the nodes whose report is too old. `updated_at` is NaN for a node without a report, which never expires."""
    return int(np.count_nonzero(updated_at + expiration_seconds <= now))


def cause(silent_seconds: float | None, expired: int, nodes: int) -> str:
    """Return the cause of blindness in words; empty if reports expire for a reason of their own."""
    if silent_seconds is not None and silent_seconds > SILENT_SECONDS:
        return (
            f"the watch of NodeMetrics is silent for {silent_seconds:.0f} s, want an event or bookmark at least every "
            f"{SILENT_SECONDS:.0f} s: check the apiserver, and this ServiceAccount's right to watch nodemetrics"
        )
    if 2 * expired > nodes:
        return f"the reports of {expired} of {nodes} nodes expired, want at most half: check the koordlet DaemonSet"
    return ""
