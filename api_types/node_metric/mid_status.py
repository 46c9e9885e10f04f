"""The status annotation of a node's Mid resources on the wire: every term, its source and time, and the reason code.

JSON in `koordinator.sh/mid-resource-status`, written by the manager in the same patch as the resources. Its head is a
condition: status, reason, text, since (decision 0009). Unreleased versions wrote it under another key
(`OLD_ANNOTATION_MID_STATUS`), which is still read.
"""

from __future__ import annotations

from typing import Annotated, Final

import msgspec

from api_types import names
from api_types.kubernetes import pods, quantities

WITHDRAWN: Final = "False"
"""Status after a withdrawal."""
WITHOUT_REPORTS: Final = frozenset({"NodeMetricMissing", "NeverReported", "SampleTooOld"})
"""Reason codes of the withdrawals that the next report ends."""


class Line(msgspec.Struct, rename="camel", omit_defaults=True, frozen=True):
    """Terms of one resource, in milli-cores or bytes; shares in percent. A term that was not used is absent."""

    published: Annotated[int, msgspec.Meta(ge=0, le=quantities.MOST)] | None = None
    """Value on the node; absent where the key was removed."""
    source: str = ""
    """Source of `reclaimable`: peak, reported, static, or none without a prediction."""
    allocatable: int | None = None
    """Amount that the node leaves to pods, after its reservation."""
    reserved: int | None = None
    """Amount that the node's reservation annotation reserves."""
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
    unused: int | None = None
    """Amount that nothing but Mid uses."""
    calculated: int | None = None
    """Value of the formula without the floor: min(min(reclaimable, cap) + unallocatedShare, unused)."""
    bound_before: int | None = None
    """Requests that the floor counts instead of `allocatedMid`: those of Mid pods bound before `floorBefore`."""
    floor: int | None = None
    """Requests of Mid pods, at most the capacity; max(calculated, floor) is published."""
    rise_limit: int | None = None
    """Bound of midMaxIncreasePercent on this update, where it is lower than that."""


class MidStatus(msgspec.Struct, rename="camel", omit_defaults=True, frozen=True):
    """Status of a node's Mid resources."""

    time: str
    """Time of the write."""
    reason: str
    """Stable code."""
    status: str = ""
    """True where the newest report decides, Unknown where the published values are kept, False after a withdrawal."""
    text: str = ""
    """The code in words."""
    since: str = ""
    """Time of the first write with this code."""
    detail: str = ""
    """The observed value, where the code alone does not name it."""
    sample: str = ""
    """Sample time of the report that the terms are from."""
    last_usable: str = ""
    """Sample time of the last usable report, where values are kept that an earlier one gave."""
    prediction: str = ""
    """Sample time of the last report with a prediction."""
    floor_before: str = ""
    """Time since which Mid shrinks: of a withdrawal, or since less is calculated than Mid pods request. The floor
    counts only Mid pods that were bound before."""
    closed: str = ""
    """Why the node accepts no new Mid pod, a stable code: Frozen or Evicted. Then no more is published than Mid pods
    request."""
    requests_from: str = ""
    """Source of the requests: the report, or the node's pods."""
    resources: dict[str, Line] = {}


def last_usable(status: MidStatus | None) -> str | None:
    """Return the sample time of the last usable report that a status names; None or empty where it names none."""
    return (status.last_usable or status.sample) if status else None


def encode(status: MidStatus) -> str:
    """Encode the text of the annotation."""
    return msgspec.json.encode(status).decode()


def decode(text: str | None) -> MidStatus | None:
    """Decode the text of the annotation; None where it is absent, or not one that the manager writes."""
    if text is None or pods.is_too_long(text):
        return None
    try:
        return msgspec.json.decode(text, type=MidStatus)
    except (msgspec.DecodeError, RecursionError):
        return None


def text_of(node: pods.Node) -> str | None:
    """Return the text of a node's status annotation, under its present key or the old one."""
    annotations = pods.annotations_of(node.metadata)
    return annotations.get(names.ANNOTATION_MID_STATUS, annotations.get(names.OLD_ANNOTATION_MID_STATUS))
