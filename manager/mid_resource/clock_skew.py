"""Detect nodes whose clock is slow or fast, by the apiserver's own time of their reports. Pure.

The age of a sample is a difference of two clocks: the node's wrote the sample's time, the manager's reads it. A slow
clock makes every sample seem old, a fast one dates it in the future. The apiserver records in
`metadata.managedFields` when a status was written, by its own clock; a report is written within seconds of its sample.

A wrong clock is only reported. It makes no sample younger: the age that counts is the one that the node's clock gives,
so the error is on the safe side, or within the tolerance for times in the future.
"""

from __future__ import annotations

import datetime as dt
from typing import Final

from api_types.kubernetes import times
from manager.cache import store

TOLERANCE: Final = dt.timedelta(seconds=60)
"""Far above the delay of a report, and below the smallest `degradeTimeMinutes` but for the limit itself."""
EVENT_REASON: Final = "NodeClockWrong"


def skew(metric: store.NodeMetric) -> dt.timedelta | None:
    """Return how far a node's clock is ahead of the apiserver's, negative where it is behind; None where unknown.

    Each client that wrote a part of the status has a time of its own. The nearest one counts, so that a later change
    by another client is not taken for a slow clock.
    """
    sample = times.parse_rfc3339_or_none(metric.status.update_time if metric.status else None)
    if sample is None:
        return None
    written = (
        times.parse_rfc3339_or_none(each.time)
        for each in metric.metadata.managed_fields or ()
        if each.subresource == "status"
    )
    return min((sample - time for time in written if time is not None), key=abs, default=None)


def fault(ahead: dt.timedelta | None) -> str:
    """Describe a clock that is wrong by more than the tolerance; empty for any other."""
    if ahead is None or abs(ahead) <= TOLERANCE:
        return ""
    kind = "fast" if ahead > dt.timedelta() else "slow"
    return f"the clock of the node is {abs(ahead).total_seconds():.0f} s {kind}"


def event_message(text: str) -> str:
    """Return the message of the Event about a clock with this fault."""
    limit = f"{TOLERANCE.total_seconds():.0f}"
    return f"{text} by the apiserver's time of its report, want at most {limit} s; synchronize it, for example by NTP"
