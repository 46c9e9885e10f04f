"""Values to publish on a node: calculated, kept or withdrawn, as decided; and the time since which they shrink. Pure.

In normal operation zero is published as zero: the key shows that the node takes part and has nothing to give now, as
in Koordinator. Keys are removed only by a withdrawal that leaves no Mid pod behind.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, NamedTuple

import msgspec

from api_types import names
from api_types.colocation import node_reservation
from api_types.kubernetes import pods, quantities, times
from api_types.node_metric import mid_report, mid_resource
from api_types.node_metric.mid_report import MidPolicy, Requests, UsableReport
from api_types.node_metric.mid_resource import Terms
from api_types.node_metric.mid_status import MidStatus
from manager.cache import store
from manager.mid_resource.reasons import PUBLISHING, Closed, Reason

UNLIMITED_INCREASE_PERCENT: Final = 100
FROM_REPORT: Final = "report"
FROM_PODS: Final = "pods"
UNKNOWN: Final = "unknown"
"""Sources of the requests in a target."""
SET_BACK: Final = dt.timedelta(seconds=5)
"""A clock that is set back by less than this only counts pods bound so much later, and lengthens pauses by as much."""


@dataclass(frozen=True)
class PublishedMid:
    """Mid resources in a node's status; a missing resource is absent."""

    capacity: Mapping[str, int]
    allocatable: Mapping[str, int]

    def is_empty(self) -> bool:
        """Check whether the node carries no Mid key."""
        return not self.capacity and not self.allocatable


@dataclass(frozen=True)
class Target:
    """Values that a node's status should have; None removes the key."""

    values: Mapping[str, int | None]
    reason: Reason
    lines: Mapping[str, Terms] = field(default_factory=dict)
    floor_before: dt.datetime | None = None
    """Start of the time in which Mid shrinks; None at other times."""
    closed: Closed = Closed.NO
    """Why no more is published than Mid pods request."""

    def is_short(self) -> bool:
        """Check whether less is calculated than Mid pods request."""
        return any((line.calculated or 0) < (line.allocated_mid or 0) for line in self.lines.values())

    def removes_all(self) -> bool:
        """Check whether every key is removed."""
        return all(value is None for value in self.values.values())


def published_on(node: pods.Node) -> PublishedMid:
    """Read the Mid resources of a node."""
    capacity, allocatable = (
        quantities.amounts({mid: wire[mid] for mid in names.MID_RESOURCES if mid in wire})
        for wire in (node.status.capacity or {}, node.status.allocatable or {})
    )
    return PublishedMid(capacity, allocatable)


def calculated(
    terms: Mapping[str, Terms],
    published: PublishedMid,
    max_increase_percent: int,
    *,
    same_sample: bool,
    written: MidStatus | None = None,
    reserved: Mapping[str, int] = MappingProxyType({}),
    closed: Closed = Closed.NO,
) -> Target:
    """Return the target by the terms of both resources, by native name; bound the rise over the published values.

    A rise is bounded per update: a sample that was published already (`same_sample`) permits no second one. It begins
    at the value of the last status annotation, so that a key that another client lost returns to it at once.
    `reserved`, by native name, is only recorded: the terms are net of it. A `closed` node has room for no new pod.
    """
    before = _last_values(published, written)
    values: dict[str, int | None] = {}
    lines = {}
    reason = Reason.CALCULATED
    for native, mid in mid_resource.MID_OF_NATIVE.items():
        term = terms[native]
        step = 0 if same_sample else mid_resource.share(term.allocatable or 0, max_increase_percent)
        limit = max((before[mid] or 0) + step, term.floor or 0)
        # a node that accepts no new pod publishes at most what its pods request, no less than the floor
        target = max(min(term.calculated or 0, term.counted_mid), term.floor or 0) if closed else term.value
        is_limited = max_increase_percent < UNLIMITED_INCREASE_PERCENT and limit < target
        values[mid] = limit if is_limited else target
        lines[mid] = msgspec.structs.replace(
            term,
            published=values[mid],
            rise_limit=limit if is_limited else None,
            reserved=reserved.get(native),
            bound_before=None if term.floor is None else term.bound_before,
        )
        reason = _REASON_OF_SOURCE[term.source]
    return Target(values, reason, lines, closed=closed)


def kept_closed(target: Target, requested: Mapping[str, int], closed: Closed) -> Target:
    """Return a target of kept values without room for new pods, by the requests of the pods that are known."""
    values = {mid: None if value is None else min(value, requested[mid]) for mid, value in target.values.items()}
    lines = {mid: msgspec.structs.replace(line, published=values[mid]) for mid, line in target.lines.items()}
    return dataclasses.replace(target, values=values, lines=lines, closed=closed)


def _last_values(published: PublishedMid, written: MidStatus | None) -> dict[str, int | None]:
    """Return what the manager itself wrote, whatever another client made of it; what is published where it did not."""
    lines = written.resources if written else {}
    by_manager = {mid: line.published for mid, line in lines.items() if line.published is not None}
    return {mid: by_manager.get(mid, published.allocatable.get(mid)) for mid in names.MID_RESOURCES}


_REASON_OF_SOURCE: Final[Mapping[str, Reason]] = {
    mid_resource.Source.PEAK: Reason.CALCULATED,
    mid_resource.Source.REPORTED: Reason.CALCULATED_FROM_RECLAIMABLE,
    mid_resource.Source.STATIC: Reason.STATIC,
    mid_resource.Source.NONE: Reason.CALCULATED_WITHOUT_PREDICTION,
}


def kept(published: PublishedMid, reason: Reason, written: MidStatus | None) -> Target:
    """Keep the values of the last status annotation; where it has none, those that are published."""
    before = times.parse_rfc3339_or_none(written.floor_before if written else None)
    lines = written.resources if written else {}
    return Target(_last_values(published, written), reason, lines, floor_before=before)


def withdrawn(lines: Mapping[str, Terms] | None, reason: Reason, floor_before: dt.datetime | None = None) -> Target:
    """Publish exactly the floor in these terms: no new pod fits, and running ones survive a kubelet restart.

    The keys are removed where the floor is 0, and where there is none (`midFloor: none`).
    """
    if lines is None or not any(line.floor for line in lines.values()):
        return Target(dict.fromkeys(names.MID_RESOURCES), reason, floor_before=floor_before)
    return Target({mid: line.published for mid, line in lines.items()}, reason, lines, floor_before)


def evaluated(
    node: store.StoredNode,
    report: UsableReport,
    policy: MidPolicy,
    requests: Requests,
    *,
    sample: dt.datetime | None,
    max_increase_percent: int | None,
    bound_before: Mapping[str, int] | None = None,
    closed: Closed = Closed.NO,
) -> Target:
    """Return the target of a node by a report. `sample` is its time; `requests` as in `mid_report.terms`."""
    written = node.mid_status
    terms = mid_report.terms(
        report, policy, node_reservation.allocatable(node).resources, node_reservation.capacity(node), requests,
        bound_before=bound_before,
    )  # fmt: skip
    published_sample = written.sample if written and written.reason in PUBLISHING else ""
    if not policy.publishes or max_increase_percent is None:  # nothing is published that it could rise from
        max_increase_percent = UNLIMITED_INCREASE_PERCENT
    return calculated(
        terms,
        published_on(node),
        max_increase_percent,
        same_sample=sample is not None and times.format_rfc3339(sample) == published_sample,
        written=written,
        reserved=node_reservation.annotated(pods.annotation_map(node.metadata)).resources,
        closed=closed,
    )


class Period(NamedTuple):
    """Time in which Mid shrinks on one node: of a withdrawal, or since less is calculated than is requested.

    The floor protects running Mid pods from a restart of the kubelet and must not make room for new ones, so in that
    time it counts only pods that were bound before it began. The time is in the status annotation, for the next leader.
    """

    since: dt.datetime
    sample: dt.datetime | None
    """Sample that began it; None where it began otherwise, or where an earlier leader recorded it. One sample that is
    short by noise costs neither a pod list nor a write: all Mid pods of it were bound before, so both come with the
    next sample that is still short."""


def continue_or_begin(
    period: Period | None, written: MidStatus | None, now: dt.datetime, sample: dt.datetime | None
) -> Period:
    """Return the open period of a node; begin one where there is none, or where it begins in the future.

    The clock was set back then, and pods that are bound now would count as bound before. `written` is the annotation of
    an earlier leader, None where this one has ended a period.
    """
    if period is not None:
        return period if period.since <= now + SET_BACK else Period(now, sample)
    recorded = times.parse_rfc3339_or_none(written.floor_before if written else None)
    if recorded is not None and recorded <= now + SET_BACK:
        return Period(recorded, None)
    return Period(now, sample)
