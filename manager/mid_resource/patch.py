"""Decide whether and when a node's status is written, and make the patch with the status annotation. Pure.

A node is written when a calculated value moves by more than the threshold or a value that is not calculated moves at
all, when a running pod would not be covered, when what a pod has left is not for another one, when the head of the
annotation changes (the reason, whether the node is closed, since when Mid shrinks), and when the last write is too long
ago.

The annotation has every term with its source and time, and the reason code. It is also the memory of the manager: a new
leader reads from it the time of the last write and the sample that was used.

Every write to a node is sent to every client that watches nodes. So at least two seconds pass between two writes to a
node. While another client changes back what was written, the pause doubles with each time, up to five minutes: the
other client would win each round anyway, and a fight without an end costs the apiserver more than the node is worth.

A withdrawal does not wait for a pause that grew before it: the first one follows two seconds after the last write.
Only a withdrawal that is itself changed back has to wait as long as any other write.
"""

from __future__ import annotations

import datetime as dt
import enum
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import msgspec

from api_types import names
from api_types.kubernetes import pods, times
from api_types.node_metric import mid_status
from api_types.node_metric.mid_resource import Terms
from api_types.node_metric.mid_status import MidStatus
from apiserver_client.backoff import Backoff
from manager.mid_resource.decision import Action
from manager.mid_resource.formula import PublishedMid, Target
from manager.mid_resource.reasons import STATUS, TEXTS, Reason

LEAST_SECONDS: Final = 2.0
LONGEST_SECONDS: Final = 300.0
FORGOTTEN_AFTER: Final = dt.timedelta(minutes=10)
"""Longer than the longest pause: a value that lasted that long ends a series of reverts."""
REVERTS_REPORTED_FROM: Final = 3
"""An edit by hand, or a kubelet that drops the keys at its restart, is one."""


class PatchReason(enum.StrEnum):
    """Reason of a write."""

    KEY_MISSING = "key-missing"
    MOVED = "moved"
    EXPLANATION = "explanation"
    REFRESH = "refresh"


def needs_sync(old: Mapping[str, int], new: Mapping[str, int | None], threshold: float) -> PatchReason | None:
    """Compare published and wanted values of both resources: a key on one side only, or a move beyond the threshold.

    The threshold is relative to the old value; from zero every move counts.
    """
    for mid in names.MID_RESOURCES:
        before, after = old.get(mid), new.get(mid)
        if before is None or after is None:
            if before is not after:
                return PatchReason.KEY_MISSING
        elif abs(after - before) > before * threshold:
            return PatchReason.MOVED
    return None


def patch_reason(
    target: Target,
    action: Action,
    published: PublishedMid,
    written: MidStatus | None,
    *,
    threshold: float,
    refresh_period: dt.timedelta,
    now: dt.datetime,
    last_usable: dt.datetime | None = None,
) -> PatchReason | None:
    """Return the reason to write the node; None where it may stay unchanged. `last_usable` is of kept values."""
    is_calculated, carried = action is Action.CALCULATE, carries_status(target)
    for amounts in (published.allocatable, published.capacity):
        if differs := needs_sync(amounts, target.values, threshold if is_calculated else 0.0):
            return differs
    if is_calculated and any(_is_out_of_bounds(mid, target, before) for mid, before in published.allocatable.items()):
        return PatchReason.MOVED
    if written is None:  # a new node has no Mid key before its first report
        is_new = published.is_empty() and target.reason in (Reason.AWAITING_FIRST_REPORT, Reason.NODE_METRIC_MISSING)
        return None if is_new or not carried else PatchReason.EXPLANATION
    shrinks = target.floor_before and any(line.bound_before is not None for line in target.lines.values())
    since = times.format_rfc3339(target.floor_before) if target.floor_before and shrinks else written.floor_before
    head = target.reason if carried else "", target.closed, since
    is_kept = action is Action.KEEP and not published.is_empty()
    # a restarted manager could not know the time of the kept values, and would end them too early
    is_unknown = is_kept and last_usable and times.format_rfc3339(last_usable) != mid_status.last_usable(written)
    if is_unknown or (written.reason, written.closed, written.floor_before) != head:
        return PatchReason.EXPLANATION
    last_write = times.parse_rfc3339_or_none(written.time)
    is_old = last_write is None or not last_write <= now <= last_write + refresh_period
    return PatchReason.REFRESH if is_old and (is_calculated or is_kept) else None


def _is_out_of_bounds(mid: str, target: Target, before: int) -> bool:
    """Check whether a published value is below the floor, or leaves the room of pods that ended where none may come."""
    line = target.lines.get(mid, Terms())
    admits_none = target.closed or (line.bound_before is not None and line.floor == line.published)
    return before < (line.floor or 0) or (bool(admits_none) and (target.values.get(mid) or 0) < before)


def carries_status(target: Target) -> bool:
    """Check whether the node keeps a status annotation: not after Mid was switched off and no key is left."""
    return not (target.removes_all() and target.reason in (Reason.COLOCATION_DISABLED, Reason.SHADOW))


def node_patch(node: pods.Node, target: Target, status: MidStatus) -> dict[str, Any]:
    """Return the merge patch of `nodes/<name>/status`: both resources in both lists, and the status annotation."""
    values = {mid: None if value is None else str(value) for mid, value in target.values.items()}
    text = msgspec.json.encode(status).decode() if carries_status(target) else None
    return {
        "metadata": {"uid": node.metadata.uid, "annotations": {names.ANNOTATION_MID_STATUS: text}},
        "status": {"capacity": values, "allocatable": dict(values)},
    }


def make_status(
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
    lines: Mapping[str, Terms] | None = None,
    before: MidStatus | None = None,
) -> MidStatus:
    """Return the status of a write at `now` that replaces the status `before`."""
    is_unchanged = before is not None and before.reason == reason
    return MidStatus(
        time=times.format_rfc3339(now),
        reason=reason.value,
        status=STATUS[reason].value,
        text=TEXTS[reason],
        since=before.since if before and is_unchanged and before.since else times.format_rfc3339(now),
        detail=detail,
        sample=times.format_rfc3339(sample) if sample else "",
        last_usable=times.format_rfc3339(last_usable) if last_usable else "",
        prediction=times.format_rfc3339(prediction) if prediction else "",
        floor_before=times.format_rfc3339(floor_before) if floor_before else "",
        closed=closed,
        requests_from=requests_from,
        resources=dict(lines or {}),
    )


_State = tuple[dict[str, int | None], dict[str, int | None], int]
"""Mid resources in capacity and in allocatable, and the hash of the status annotation, whose text takes 2 KiB."""


class WriteTurn(NamedTuple):
    """Whether a node may be written now."""

    wait_seconds: float = 0.0
    """Zero where it may."""
    is_new_revert: bool = False
    """Whether another client has changed what was written, not seen before."""
    reverts: int = 0
    """Number of reverts in series, this one included."""


class WritePace:
    """Last write to one node; times are aware."""

    def __init__(self) -> None:
        self._at: dt.datetime | None = None
        self._state: _State | None = None
        self._withdraws = False
        self._is_reverted = False
        self._reverts = 0
        self._reverted_at: dt.datetime | None = None

    def turn(self, published: PublishedMid, text: str | None, now: dt.datetime, *, withdraws: bool) -> WriteTurn:
        """Return whether a node that differs from what it should have may be written.

        It has these Mid resources and this status annotation now.
        """
        if self._at is None:
            return WriteTurn()
        capacity, allocatable = (
            {mid: amounts.get(mid) for mid in names.MID_RESOURCES}
            for amounts in (published.capacity, published.allocatable)
        )
        present = capacity, allocatable, hash(text)
        is_new_revert = not self._is_reverted and self._state is not None and self._state != present
        if is_new_revert:
            in_series = self._reverted_at is not None and now - self._reverted_at <= FORGOTTEN_AFTER
            self._reverts = self._reverts + 1 if in_series else 1
            self._is_reverted, self._reverted_at = True, now
        pause = LEAST_SECONDS
        if self._is_reverted and (self._withdraws or not withdraws):
            pause = Backoff(LEAST_SECONDS, LONGEST_SECONDS).step_seconds(self._reverts - 1)
        passed = (now - self._at).total_seconds()
        wait = max(pause - passed, 0.0) if passed >= 0 else 0.0  # the clock was set back: that holds nothing up
        return WriteTurn(wait, is_new_revert, self._reverts)

    def written(self, body: Mapping[str, Any], now: dt.datetime, *, withdraws: bool) -> None:
        """Record a patch of the status of the node."""
        self._at, self._withdraws, self._is_reverted = now, withdraws, False
        values = {mid: None if value is None else int(value) for mid, value in body["status"]["allocatable"].items()}
        self._state = values, values, hash(body["metadata"]["annotations"][names.ANNOTATION_MID_STATUS])
