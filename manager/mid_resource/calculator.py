"""What to publish on a node once it is decided whether to: calculated, kept or withdrawn values. Pure.

In normal operation a value of zero is published as zero: a key that is there says that the node takes part and has
nothing to give now, as upstream does. Keys are removed only by a withdrawal that leaves no Mid pod behind.
Source: design 4.4.
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
from manager.mid_resource import status_annotation
from manager.mid_resource.reasons import Reason

UNLIMITED_INCREASE_PERCENT: Final = 100


@dataclass(frozen=True)
class Published:
    """Mid resources that stand in a node's status now; a resource that is not there is absent."""

    capacity: Mapping[str, int]
    allocatable: Mapping[str, int]

    def is_empty(self) -> bool:
        """Whether the node carries none of our keys."""
        return not self.capacity and not self.allocatable


@dataclass(frozen=True)
class Target:
    """What should stand in the node's status; None means that the key should not be there."""

    values: Mapping[str, int | None]
    reason: Reason
    lines: Mapping[str, status_annotation.Line] = field(default_factory=dict)

    def removes_all(self) -> bool:
        """Whether no key is to be there."""
        return all(value is None for value in self.values.values())


def published_on(node: pods.Node) -> Published:
    """Mid resources in a node's status. Raises quantities.InvalidQuantity, which an apiserver does not let happen."""

    def ours(wire: pods.QuantityMap | None) -> pods.Resources:
        return pods.units({name: value for name, value in (wire or {}).items() if name in names.MID_RESOURCES})

    return Published(ours(node.status.capacity), ours(node.status.allocatable))


def calculated(
    inputs: Mapping[str, MidInputs],
    published: Published,
    max_increase_percent: int,
    *,
    same_sample: bool,
    reserved: Mapping[str, int] = MappingProxyType({}),
) -> Target:
    """Evaluate the formula for both resources, by native name, and bound the rise over what is published.

    A rise is bounded per update: a sample that was published already (`same_sample`) allows no second one.
    `reserved`, by native name, is only told: `inputs` have it taken off already. Raises NoPrediction.
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


def kept(published: Published, reason: Reason, written: status_annotation.MidStatus | None) -> Target:
    """Leave what is there; the last receipt says where it came from, and what was there before somebody took it."""
    lines = written.resources if written else {}
    before = {mid: lines[mid].published if mid in lines else None for mid in names.MID_RESOURCES}
    values = {mid: published.allocatable.get(mid, before[mid]) for mid in names.MID_RESOURCES}
    return Target(values, reason, lines)


def withdrawn(bound: Mapping[str, int] | None, reason: Reason) -> Target:
    """Publish exactly what bound Mid pods request, so that no new one fits and running ones survive a kubelet restart.

    Nothing bound, and `bound` None (`midFloor: none`), remove the keys.
    """
    if bound is None or not any(bound.get(mid) for mid in names.MID_RESOURCES):
        return Target(dict.fromkeys(names.MID_RESOURCES), reason)
    values = {mid: bound.get(mid, 0) for mid in names.MID_RESOURCES}
    lines = {
        mid: status_annotation.Line(published=value, allocated_mid=value, floor=value) for mid, value in values.items()
    }
    return Target(values, reason, lines)
