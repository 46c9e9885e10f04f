"""Values to publish on a node: calculated, kept or withdrawn, as decided. Pure.

In normal operation zero is published as zero: the key shows that the node takes part and has nothing to give now, as
in Koordinator. Keys are removed only by a withdrawal that leaves no Mid pod behind.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from api_types import names
from api_types.kubernetes import pods, times
from api_types.node_metric import mid_resource
from api_types.node_metric.mid_resource import MidInputs, MidTerms
from api_types.node_metric.mid_status import Line, MidStatus
from manager.mid_resource import status_annotation
from manager.mid_resource.reasons import Closed, Reason

UNLIMITED_INCREASE_PERCENT: Final = 100


@dataclass(frozen=True)
class Published:
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
    lines: Mapping[str, Line] = field(default_factory=dict)
    floor_before: dt.datetime | None = None
    """Start of the time in which Mid shrinks; None at other times."""
    closed: Closed = Closed.NO
    """Why no more is published than Mid pods request."""

    def removes_all(self) -> bool:
        """Check whether every key is removed."""
        return all(value is None for value in self.values.values())


@dataclass(frozen=True)
class Floor:
    """Floor of a withdrawal, by Mid name, and what it follows from; a term that is not known is absent."""

    values: Mapping[str, int]
    capacity: Mapping[str, int] = field(default_factory=dict)
    allocated: Mapping[str, int] = field(default_factory=dict)
    bound_before: Mapping[str, int] = field(default_factory=dict)


def published_on(node: pods.Node) -> Published:
    """Read the Mid resources of a node. Raises quantities.InvalidQuantity, which an apiserver does not let happen."""

    def mid_of(wire: pods.QuantityMap | None) -> pods.Resources:
        return pods.units({name: value for name, value in (wire or {}).items() if name in names.MID_RESOURCES})

    return Published(mid_of(node.status.capacity), mid_of(node.status.allocatable))


def calculated(
    inputs: Mapping[str, MidInputs],
    published: Published,
    max_increase_percent: int,
    *,
    same_sample: bool,
    written: MidStatus | None = None,
    reserved: Mapping[str, int] = MappingProxyType({}),
    closed: Closed = Closed.NO,
) -> Target:
    """Evaluate the formula for both resources, by native name, and bound the rise over the published values.

    A rise is bounded per update: a sample that was published already (`same_sample`) permits no second one. A key that
    is missing rises from the value of the last status annotation, so that a lost key returns to it at once.
    `reserved`, by native name, is only recorded: `inputs` are net of it. A `closed` node has room for no new pod.
    """
    before = _published_or_written(published, written)
    values: dict[str, int | None] = {}
    lines = {}
    reason = Reason.CALCULATED
    for native, mid in mid_resource.MID_OF_NATIVE.items():
        terms = mid_resource.calculate(inputs[native])
        step = 0 if same_sample else mid_resource.share(inputs[native].allocatable, max_increase_percent)
        limit = max((before[mid] or 0) + step, terms.floor)
        wanted = _without_room(inputs[native], terms) if closed else terms.value
        limited = max_increase_percent < UNLIMITED_INCREASE_PERCENT and limit < wanted
        value = limit if limited else wanted
        values[mid] = value
        lines[mid] = status_annotation.line(
            inputs[native], terms, value, rise_limit=limit if limited else None, reserved=reserved.get(native)
        )
        reason = _REASON_OF_SOURCE[terms.source]
    return Target(values, reason, lines, closed=closed)


def _without_room(inputs: MidInputs, terms: MidTerms) -> int:
    """Return the value of a node that accepts no new pod: at most what its pods request, no less than the floor."""
    requested = inputs.allocated_mid if inputs.bound_before is None else inputs.bound_before
    return max(min(terms.calculated, requested), terms.floor)


def kept_closed(target: Target, requested: Mapping[str, int], closed: Closed) -> Target:
    """Return a target of kept values without room for new pods, by the requests of the pods that are known."""
    values = {mid: None if value is None else min(value, requested[mid]) for mid, value in target.values.items()}
    return dataclasses.replace(target, values=values, closed=closed)


def _published_or_written(published: Published, written: MidStatus | None) -> dict[str, int | None]:
    lines = written.resources if written else {}
    before = {mid: lines[mid].published if mid in lines else None for mid in names.MID_RESOURCES}
    return {mid: published.allocatable.get(mid, before[mid]) for mid in names.MID_RESOURCES}


_REASON_OF_SOURCE: Final = {
    mid_resource.Source.PEAK: Reason.CALCULATED,
    mid_resource.Source.REPORTED: Reason.CALCULATED_FROM_RECLAIMABLE,
    mid_resource.Source.STATIC: Reason.STATIC,
    mid_resource.Source.NONE: Reason.CALCULATED_WITHOUT_PREDICTION,
}


def with_floor_before(target: Target, floor_before: dt.datetime) -> Target:
    """Return the target of a node whose Mid resources shrink since a time."""
    return dataclasses.replace(target, floor_before=floor_before)


def kept(published: Published, reason: Reason, written: MidStatus | None) -> Target:
    """Keep the published values. A key that is missing is restored from the last status annotation."""
    before = times.parse_rfc3339_or_none(written.floor_before if written else None)
    lines = written.resources if written else {}
    return Target(_published_or_written(published, written), reason, lines, floor_before=before)


def withdrawn(floor: Floor | None, reason: Reason, floor_before: dt.datetime | None = None) -> Target:
    """Publish exactly the floor: no new pod fits, and running ones survive a kubelet restart.

    The keys are removed where the floor is 0, and where there is none (`midFloor: none`).
    """
    if floor is None or not any(floor.values.get(mid) for mid in names.MID_RESOURCES):
        return Target(dict.fromkeys(names.MID_RESOURCES), reason, floor_before=floor_before)
    values = {mid: floor.values.get(mid, 0) for mid in names.MID_RESOURCES}
    lines = {
        mid: Line(
            published=value,
            capacity=floor.capacity.get(mid),
            allocated_mid=floor.allocated.get(mid),
            bound_before=floor.bound_before.get(mid),
            floor=value,
        )
        for mid, value in values.items()
    }
    return Target(values, reason, lines, floor_before)
