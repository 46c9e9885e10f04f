"""Events on a node about its Mid resources: a changed reason, a large fall, a wrong clock, another writer."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, Final, Literal, NamedTuple

import msgspec

from api_types import names
from api_types.node_metric.mid_resource import amount
from apiserver_client import errors, objects, resources, session
from manager.mid_resource.decision import CLOCK_TOLERANCE
from manager.mid_resource.formula import PublishedMid, Target
from manager.mid_resource.reasons import CLOCK_WRONG, PUBLISHING, REDUCED, TEXTS, Reason

log = logging.getLogger(__name__)

OWN_MANAGER: Final = "koord-manager"
"""Field manager of this program: the apiserver takes it from the user agent, as it does for Koordinator's."""
REVERTED: Final = "MidResourcesReverted"
UNKNOWN_WRITER: Final = "another client"
_NOTABLE_FALL_DIVISOR: Final = 10  # a tenth of the node


class Event(NamedTuple):
    """Severity, reason and message."""

    severity: Literal["Normal", "Warning"]
    reason: str
    message: str


def reason_event(before: str, target: Target, published: PublishedMid, detail: str) -> Event | None:
    """Return the Event about a changed reason: withdrawals, refusals and the return from them.

    Calculated and kept alternate in normal operation, which needs no Event.
    """
    now = target.reason
    if before == now or not _is_notable(before, now, published):
        return None
    is_normal = now in (*PUBLISHING, Reason.COLOCATION_DISABLED, Reason.SHADOW)
    is_normal = is_normal and now is not Reason.CALCULATED_WITHOUT_PREDICTION
    shown = ((mid, "none" if value is None else amount(mid, value)) for mid, value in sorted(target.values.items()))
    values = ", ".join(f"{mid} {value}" for mid, value in shown)
    message = f"Mid resources {TEXTS[now]}{f' ({detail})' if detail else ''}: {values}"
    return Event("Normal" if is_normal else "Warning", now.value, message)


def _is_notable(before: str, now: Reason, published: PublishedMid) -> bool:
    if now is Reason.CALCULATED_WITHOUT_PREDICTION:
        return not published.is_empty()
    if now in PUBLISHING:
        return before not in (*PUBLISHING, Reason.NO_PREDICTION) or before == Reason.CALCULATED_WITHOUT_PREDICTION
    if now in (Reason.NO_PREDICTION, Reason.AWAITING_FIRST_REPORT):
        return False
    return now in (Reason.REPORT_REFUSED, Reason.NEVER_REPORTED) or not published.is_empty()


def fall_event(target: Target, published: PublishedMid) -> Event | None:
    """Return the Event about calculated resources that fall by more than a tenth of the node's allocatable.

    A withdrawal has an Event of its own.
    """
    if target.reason not in PUBLISHING:
        return None
    falls = []
    for mid in names.MID_RESOURCES:
        before, after, line = published.allocatable.get(mid, 0), target.values[mid] or 0, target.lines[mid]
        if (before - after) * _NOTABLE_FALL_DIVISOR > (line.allocatable or 0):
            bound = f" (Mid pods request {amount(mid, line.allocated_mid)})" if line.allocated_mid else ""
            fall = (amount(mid, value) for value in (before, after, line.allocatable or 0))
            falls.append("{} from {} to {} of {}{}".format(mid, *fall, bound))
    if not falls:
        return None
    lost = f"Mid resources fell by more than a tenth of the node: {', '.join(falls)}"
    message = f"{lost}; `koordctl explain node` shows every term"
    return Event("Normal", REDUCED, message)


def clock_event(fault: str) -> Event:
    """Return the Event about a clock with this fault."""
    limit = f"{CLOCK_TOLERANCE.total_seconds():.0f}"
    text = f"{fault} by the apiserver's time of its report, want at most {limit} s; synchronize it, for example by NTP"
    return Event("Warning", CLOCK_WRONG, text)


def revert_event(writer: str) -> Event:
    """Return the Event about a client that changes Mid resources back."""
    return Event(
        "Warning",
        REVERTED,
        f"Mid resources or their status annotation: seen changed by {writer} after each write, want one writer; stop "
        "that client, or disable colocation for this node; until then the pause between two writes grows to 5 minutes",
    )


def stripped_event(writer: str) -> Event:
    """Return the Event about a client that removes the annotation with which the evictor closes a node."""
    return Event(
        "Warning",
        REVERTED,
        f"annotation {names.ANNOTATION_MID_EVICTION}: seen removed by another client (last writer: {writer}), want it "
        "kept while the node is closed for new Mid pods; it is written again; stop that client",
    )


class _ManagedFields(msgspec.Struct, rename="camel", frozen=True):
    manager: str = ""
    time: str = ""
    subresource: str = ""
    fields_v1: dict[str, Any] = msgspec.field(default_factory=dict, name="fieldsV1")


class _ManagedMetadata(msgspec.Struct, rename="camel", frozen=True):
    managed_fields: list[_ManagedFields] = []


class _ManagedNode(msgspec.Struct, frozen=True):
    metadata: _ManagedMetadata = _ManagedMetadata()


async def last_writer(api: session.Session, node: str) -> str:
    """Return the newest field manager of a node, without writers of its status. Raises errors.ApiServerError."""
    managed = await objects.get(api, resources.NODES, node, decode=_ManagedNode)
    writers = [(entry.time, entry.manager) for entry in managed.metadata.managed_fields if not entry.subresource]
    return max(writers)[1] if writers else "not recorded by the apiserver"


async def other_writer(api: session.Session, node: str) -> str:
    """Describe the last writer of a node's Mid resources, in words for an Event. Costs one request."""
    try:
        managed = await objects.get(api, resources.NODES, node, decode=_ManagedNode)
    except errors.ApiServerError as error:
        log.warning("node %s: cannot read who changes its Mid resources: %s", node, error)
        return UNKNOWN_WRITER
    writers = sorted({entry.manager for entry in managed.metadata.managed_fields if _owns_mid(entry.fields_v1)})
    others = [writer for writer in writers if writer != OWN_MANAGER]
    if others:
        return f"{UNKNOWN_WRITER} (field manager {', '.join(others)})"
    if writers:
        return f"{UNKNOWN_WRITER} of the same field manager {OWN_MANAGER} (Koordinator's own, or a second installation)"
    return f"{UNKNOWN_WRITER} (the apiserver records no field manager)"


def _owns_mid(fields: Mapping[str, Any]) -> bool:
    status = fields.get("f:status") or {}
    lists = [status.get(part) or {} for part in ("f:capacity", "f:allocatable")]
    annotations = (fields.get("f:metadata") or {}).get("f:annotations") or {}
    owned = {key.removeprefix("f:") for part in (*lists, annotations) for key in part}
    return not owned.isdisjoint((*names.MID_RESOURCES, names.ANNOTATION_MID_STATUS))
