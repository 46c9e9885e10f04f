"""Values to publish on a node: calculated, kept or withdrawn, as decided. Pure.

In normal operation zero is published as zero: the key shows that the node takes part and has nothing to give now, as
in Koordinator. Keys are removed only by a withdrawal that leaves no Mid pod behind.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from api_types import names
from api_types.kubernetes import pods
from api_types.node_metric import mid_resource
from api_types.node_metric.mid_resource import MidInputs
from api_types.node_metric.mid_status import Line, MidStatus
from manager.mid_resource import status_annotation
from manager.mid_resource.reasons import Reason

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

    def removes_all(self) -> bool:
        """Check whether every key is removed."""
        return all(value is None for value in self.values.values())


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
    reserved: Mapping[str, int] = MappingProxyType({}),
) -> Target:
    """Evaluate the formula for both resources, by native name, and bound the rise over the published values.

    A rise is bounded per update: a sample that was published already (`same_sample`) permits no second one.
    `reserved`, by native name, is only recorded: `inputs` are net of it. Raises NoPredictionError.
    """
    values: dict[str, int | None] = {}
    lines = {}
    reason = Reason.CALCULATED
    for native, mid in mid_resource.MID_OF_NATIVE.items():
        terms = mid_resource.calculate(inputs[native])
        step = 0 if same_sample else mid_resource.share(inputs[native].allocatable, max_increase_percent)
        limit = max(published.allocatable.get(mid, 0) + step, terms.floor)
        limited = max_increase_percent < UNLIMITED_INCREASE_PERCENT and limit < terms.value
        value = limit if limited else terms.value
        values[mid] = value
        lines[mid] = status_annotation.line(
            inputs[native], terms, value, rise_limit=limit if limited else None, reserved=reserved.get(native)
        )
        reason = _REASON_OF_SOURCE[terms.source]
    return Target(values, reason, lines)


_REASON_OF_SOURCE: Final = {
    mid_resource.Source.PEAK: Reason.CALCULATED,
    mid_resource.Source.REPORTED: Reason.CALCULATED_FROM_RECLAIMABLE,
    mid_resource.Source.STATIC: Reason.STATIC,
}


def kept(published: Published, reason: Reason, written: MidStatus | None) -> Target:
    """Keep the published values. A key that is missing is restored from the last status annotation."""
    lines = written.resources if written else {}
    before = {mid: lines[mid].published if mid in lines else None for mid in names.MID_RESOURCES}
    values = {mid: published.allocatable.get(mid, before[mid]) for mid in names.MID_RESOURCES}
    return Target(values, reason, lines)


def withdrawn(bound: Mapping[str, int] | None, reason: Reason) -> Target:
    """Publish exactly the requests of bound Mid pods: no new pod fits, and running ones survive a kubelet restart.

    The keys are removed where nothing is bound, and where `bound` is None (`midFloor: none`).
    """
    if bound is None or not any(bound.get(mid) for mid in names.MID_RESOURCES):
        return Target(dict.fromkeys(names.MID_RESOURCES), reason)
    values = {mid: bound.get(mid, 0) for mid in names.MID_RESOURCES}
    lines = {mid: Line(published=value, allocated_mid=value, floor=value) for mid, value in values.items()}
    return Target(values, reason, lines)
