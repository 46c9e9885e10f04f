"""Make the status annotation of a node: every term of its Mid resources, its source and time, the reason code. Pure.

The annotation is also the memory of the manager: a new leader reads from it the time of the last write and the sample
that was used.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping

from api_types.kubernetes import times
from api_types.node_metric.mid_resource import MidInputs, MidTerms
from api_types.node_metric.mid_status import Line, MidStatus
from manager.mid_resource.reasons import STATUS, TEXTS, Reason


def line(
    inputs: MidInputs, terms: MidTerms, published: int, *, rise_limit: int | None = None, reserved: int | None = None
) -> Line:
    """Return the terms of one resource as they were calculated."""
    known = vars(inputs) | vars(terms)
    for not_a_term in ("reclaimable_reported", "value", "source", "floor"):
        known.pop(not_a_term)
    if inputs.static_percent is not None:
        known |= dict.fromkeys(("peak_prod", "reclaim_ratio_percent", "unallocated_percent", "unallocated"))
    if not inputs.floor:
        known["bound_before"] = None
    return Line(
        **known,
        published=published,
        source=terms.source.value,
        floor=terms.floor if inputs.floor else None,
        rise_limit=rise_limit,
        reserved=reserved,
    )


def make(
    reason: Reason,
    now: dt.datetime,
    *,
    detail: str = "",
    sample: dt.datetime | None = None,
    last_usable: dt.datetime | None = None,
    prediction: dt.datetime | None = None,
    floor_before: dt.datetime | None = None,
    closed: str = "",
    requests_from: str = "",
    lines: Mapping[str, Line] | None = None,
    before: MidStatus | None = None,
) -> MidStatus:
    """Return the status of a write at `now` that replaces the status `before`."""
    unchanged = before is not None and before.reason == reason
    return MidStatus(
        time=times.format_rfc3339(now),
        reason=reason.value,
        status=STATUS[reason].value,
        text=TEXTS[reason],
        since=before.since if before and unchanged and before.since else times.format_rfc3339(now),
        detail=detail,
        sample=times.format_rfc3339(sample) if sample else "",
        last_usable=times.format_rfc3339(last_usable) if last_usable else "",
        prediction=times.format_rfc3339(prediction) if prediction else "",
        floor_before=times.format_rfc3339(floor_before) if floor_before else "",
        closed=closed,
        requests_from=requests_from,
        resources=dict(lines or {}),
    )
