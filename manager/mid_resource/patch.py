"""Whether a node's status has to be written, and the patch that does it. Pure.

Written when a value moves by more than the threshold, when the last write is too long ago, when a key is missing (a
node that was recreated, a hand edit), when a running pod would not be covered. Source: design 4.4, koordinator-core
4.7 and 4.8.
"""

from __future__ import annotations

import datetime as dt
import enum
from collections.abc import Mapping
from typing import Any

from api_types import names
from api_types.kubernetes import times
from manager.mid_resource import status_annotation
from manager.mid_resource.calculator import Published, Target
from manager.mid_resource.decision import Action
from manager.mid_resource.reasons import Reason


class PatchReason(enum.StrEnum):
    """What made a write necessary."""

    KEY_MISSING = "key-missing"
    MOVED = "moved"
    BELOW_FLOOR = "below-floor"
    REFRESH = "refresh"
    WITHDRAWAL = "withdrawal"
    EXPLANATION = "explanation"


def is_resource_diff(old: int, new: int, threshold: float) -> bool:
    """Whether a value moved by more than the threshold, relative to the old one; from zero every move is one."""
    return abs(new - old) > old * threshold


def needs_sync(old: Mapping[str, int], new: Mapping[str, int | None], threshold: float) -> PatchReason | None:
    """Compare what is there with what should be, for both resources: a key on one side only, or a move."""
    for mid in names.MID_RESOURCES:
        before, after = old.get(mid), new.get(mid)
        if before is None or after is None:
            if before is not after:
                return PatchReason.KEY_MISSING
        elif is_resource_diff(before, after, threshold):
            return PatchReason.MOVED
    return None


def refresh_due(last_write: dt.datetime | None, period: dt.timedelta, now: dt.datetime) -> bool:
    """Whether there is no record of a write, or it is longer ago than the period (or ahead of our clock)."""
    return last_write is None or not last_write <= now <= last_write + period


def cause(
    target: Target,
    verdict: Action,
    published: Published,
    written: status_annotation.MidStatus | None,
    *,
    threshold: float,
    refresh_period: dt.timedelta,
    now: dt.datetime,
) -> PatchReason | None:
    """Why the node has to be written; None where it may stay as it is."""
    refresh = refresh_due(times.parse_rfc3339_or_none(written.time if written else None), refresh_period, now)
    match verdict:
        case Action.KEEP:
            if _lacks_a_key(target, published):
                return PatchReason.KEY_MISSING
            return PatchReason.REFRESH if refresh and not published.is_empty() else None
        case Action.WITHDRAW:
            return _withdrawal_cause(target, published, written)
        case Action.CALCULATE:
            moved = needs_sync(published.allocatable, target.values, threshold)
            moved = moved or needs_sync(published.capacity, target.values, threshold)
            if moved is None and _below_floor(target, published):
                moved = PatchReason.BELOW_FLOOR
            return moved or (PatchReason.REFRESH if refresh else None)


def _lacks_a_key(target: Target, published: Published) -> bool:
    wanted = {mid for mid, value in target.values.items() if value is not None}
    return not wanted <= published.allocatable.keys() & published.capacity.keys()


def _below_floor(target: Target, published: Published) -> bool:
    return any(published.allocatable.get(mid, 0) < (line.floor or 0) for mid, line in target.lines.items())


def _withdrawal_cause(
    target: Target, published: Published, written: status_annotation.MidStatus | None
) -> PatchReason | None:
    wanted = {mid: value for mid, value in target.values.items() if value is not None}
    if dict(published.allocatable) != wanted or dict(published.capacity) != wanted:
        return PatchReason.WITHDRAWAL
    if carries_receipt(target):
        return None if written and written.reason == target.reason else PatchReason.EXPLANATION
    return PatchReason.EXPLANATION if written else None


def carries_receipt(target: Target) -> bool:
    """Whether the node keeps a receipt: not when it has left colocation for good, with nothing of ours on it."""
    return not (target.removes_all() and target.reason is Reason.COLOCATION_DISABLED)


def node_patch(target: Target, written: status_annotation.MidStatus) -> dict[str, Any]:
    """Merge patch of `nodes/<name>/status`: both resources in capacity and allocatable, and the receipt."""
    values = {mid: None if value is None else str(value) for mid, value in target.values.items()}
    text = status_annotation.encode(written) if carries_receipt(target) else None
    return {
        "metadata": {"annotations": {names.ANNOTATION_MID_RECEIPT: text}},
        "status": {"capacity": values, "allocatable": dict(values)},
    }
