"""The receipt on a node: every term of its Mid resources, its source and time, the reason code. Pure.

It is an annotation in JSON (design 4.4), written in the same patch as the resources. Its head is a condition: status,
reason, text and since (decision 9). It is also the manager's memory: a successor learns from it when the last write was
and which sample it was of.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from typing import Annotated

import msgspec

from api_types import names
from api_types.kubernetes import pods, quantities, times
from api_types.node_metric.mid_resource import MidInputs, MidTerms
from manager.mid_resource.reasons import STATUS, TEXTS, Reason


class Line(msgspec.Struct, rename="camel", omit_defaults=True, frozen=True):
    """Terms of one resource, in milli-cores or bytes; shares in percent. What was not used is absent."""

    published: Annotated[int, msgspec.Meta(ge=0, le=quantities.MOST)] | None = None
    """Value on the node; absent where the key was removed."""
    source: str = ""
    """What `reclaimable` was taken from: peak, reported or static."""
    allocatable: int | None = None
    """What the node leaves to pods, the reservation taken off."""
    reserved: int | None = None
    """What the node's reservation annotation keeps back."""
    capacity: int | None = None
    allocated_prod: int | None = None
    allocated_mid: int | None = None
    peak_prod: int | None = None
    reclaim_ratio_percent: int | None = None
    threshold_percent: int | None = None
    unallocated_percent: int | None = None
    static_percent: int | None = None
    reclaimable: int | None = None
    cap: int | None = None
    unallocated: int | None = None
    unallocated_share: int | None = None
    floor: int | None = None
    calculated: int | None = None
    """The formula's value: max(min(reclaimable, cap) + unallocatedShare, floor)."""
    rise_limit: int | None = None
    """Bound of midMaxIncreasePercent on this update, where it is lower than `calculated`."""


class MidStatus(msgspec.Struct, rename="camel", omit_defaults=True, frozen=True):
    """Why a node's Mid resources are what they are."""

    time: str
    """When this was written."""
    reason: str
    """Stable code."""
    status: str = ""
    """True where the newest report decides, Unknown where what is there is kept, False where it is withdrawn."""
    text: str = ""
    """The code in words."""
    since: str = ""
    """When the code became this one, as far as writes tell."""
    detail: str = ""
    """What was seen, where the code alone does not say."""
    sample: str = ""
    """Sample time of the report the terms are of."""
    requests_from: str = ""
    """Where the requests were taken from: the report, or the node's pods."""
    resources: dict[str, Line] = {}


def line(
    inputs: MidInputs, terms: MidTerms, published: int, *, rise_limit: int | None = None, reserved: int | None = None
) -> Line:
    """Terms of one resource as they were calculated."""
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
    """Receipt of a write at `now` that replaces the one before."""
    unchanged = before is not None and before.reason == reason
    return MidStatus(
        time=times.format_rfc3339(now),
        reason=reason.value,
        status=STATUS[reason].value,
        text=TEXTS[reason],
        since=before.since if before and unchanged and before.since else times.format_rfc3339(now),
        detail=detail,
        sample=times.format_rfc3339(sample) if sample else "",
        requests_from=requests_from,
        resources=dict(lines or {}),
    )


def encode(receipt: MidStatus) -> str:
    """Text of the annotation."""
    return msgspec.json.encode(receipt).decode()


def of_node(node: pods.Node) -> MidStatus | None:
    """Receipt on a node; None where there is none, or nothing we could have written."""
    text = pods.annotations_of(node.metadata).get(names.ANNOTATION_MID_RECEIPT)
    if text is None:
        return None
    try:
        return msgspec.json.decode(text, type=MidStatus)
    except (msgspec.DecodeError, RecursionError):
        return None
