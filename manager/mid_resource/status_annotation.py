"""Make the status annotation of a node: every term of its Mid resources, its source and time, the reason code. Pure.

The annotation is also the memory of the manager: a new leader reads from it the time of the last write and the sample
that was used.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping

from api_types.node_metric.mid_resource import MidInputs, MidTerms
from api_types.node_metric.mid_status import Line, MidStatus
from manager.mid_resource.reasons import STATUS, TEXTS, Reason


def line(
    inputs: MidInputs, terms: MidTerms, published: int, *, rise_limit: int | None = None, reserved: int | None = None
) -> Line:
    """Return the terms of one resource as they were calculated."""
    known = vars(inputs) | vars(terms)
    for unused in ("reclaimable_reported", "value", "source", "floor"):
        known.pop(unused)
    if inputs.static_percent is not None:
        known |= dict.fromkeys(("peak_prod", "reclaim_ratio_percent", "unallocated_percent", "unallocated"))
    return Line(
        **known,
        published=published,
        source=terms.source.value,
        floor=terms.floor if inputs.floor else None,
        calculated=terms.value,
        rise_limit=rise_limit,
        reserved=reserved,
    )


def make(
    reason: Reason,
    now: dt.datetime,
    *,
    detail: str = "",
    sample: dt.datetime | None = None,
    requests_from: str = "",
    lines: Mapping[str, Line] | None = None,
    before: MidStatus | None = None,
) -> MidStatus:
    """Return the status of a write at `now` that replaces the status `before`."""
    unchanged = before is not None and before.reason == reason
    return MidStatus(
        time=format_rfc3339(now),
        reason=reason.value,
        status=STATUS[reason].value,
        text=TEXTS[reason],
        since=before.since if before and unchanged and before.since else format_rfc3339(now),
        detail=detail,
        sample=format_rfc3339(sample) if sample else "",
        requests_from=requests_from,
        resources=dict(lines or {}),
    )


def format_rfc3339(time: dt.datetime) -> str:
    """Format a time as RFC 3339 in UTC, to the second."""
    return time.astimezone(dt.UTC).replace(microsecond=0).isoformat().replace("+00:00", "Z")


def parse_time(text: str | None) -> dt.datetime | None:
    """Parse an RFC 3339 time into UTC; None where it is absent, malformed, without a zone or out of range."""
    try:
        time = dt.datetime.fromisoformat(text or "")
        return time.astimezone(dt.UTC) if time.tzinfo else None
    except (ValueError, OverflowError):
        return None
