"""Compute the Mid resources of a node and every term of the formula, in integers of milli-cores and bytes.

```
Reclaimable = max(0, min( midReclaimRatio * Allocated[Prod] - Peak[Prod],  NodeAllocatable - Peak[Prod] ))
Share       = midUnallocatedPercent * max( NodeAllocatable - Allocated[Prod], 0 )
Calculated  = min( min( Reclaimable, NodeAllocatable * midThreshold ) + Share,  Unused )
Floor       = min( Allocated[Mid], capacity )                                         0 with midFloor = none
Published   = max( Calculated, Floor )
```
Without a Peak, or with a Peak of another snapshot than the requests (Koordinator's agent), Reclaimable is the value of
the report; without a prediction it is 0. `Unused` is what nothing but Mid uses, 0 where the usage is not known. In
static mode Reclaimable is `Capacity * midStaticReserved`, the cap is `Capacity * midThreshold`, nothing unallocated is
added, and the usage does not count. Shares are rounded down.

The manager publishes `MidTerms.value`. The floor only protects running pods; the scheduler's Mid guard admits pods by
`MidTerms.calculated`, for the newest report. `mid_report` makes the inputs for both.
See docs/concepts/mid-resources.md.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from api_types import names

MID_OF_NATIVE: Final[Mapping[str, str]] = {names.CPU: names.MID_CPU, names.MEMORY: names.MID_MEMORY}
"""Native resource -> the Mid resource that is calculated from it."""


class Source(enum.StrEnum):
    """Source of the Reclaimable term."""

    PEAK = "peak"
    REPORTED = "reported"
    STATIC = "static"
    NONE = "none"
    """No prediction: Reclaimable is 0."""


@dataclass(frozen=True)
class MidInputs:
    """Inputs for one resource of one node, in milli-cores or bytes; shares in percent."""

    allocatable: int
    capacity: int
    allocated_prod: int
    allocated_mid: int
    peak_prod: int | None = None
    """Predicted peak, of the same snapshot as `allocated_prod`."""
    reclaimable_reported: int | None = None
    """Reclaimable amount of the report; used where there is no peak."""
    unused: int = 0
    """Amount that nothing but Mid uses; not read in static mode."""
    reclaim_ratio_percent: int = 100
    threshold_percent: int = 100
    unallocated_percent: int = 0
    floor: bool = True
    """Whether at least the requests of Mid pods are published."""
    bound_before: int | None = None
    """Requests that the floor counts instead of `allocated_mid`: those of Mid pods bound before Mid began to shrink."""
    static_percent: int | None = None
    """Share of capacity; set in static mode only."""


@dataclass(frozen=True)
class MidTerms:
    """Every term of the formula.

    calculated = min(min(reclaimable, cap) + unallocated_share, unused), value = max(calculated, floor).
    """

    source: Source
    reclaimable: int
    cap: int
    unallocated: int
    unallocated_share: int
    unused: int | None
    """None in static mode, which does not read the usage."""
    calculated: int
    floor: int
    value: int


def share(amount: int, percent: int) -> int:
    """Return `percent` of an amount, rounded down."""
    return amount * percent // 100


def floor_of(requested: int, capacity: int) -> int:
    """Return the floor for the requests of Mid pods: a node never publishes more than it has because of them."""
    return min(requested, capacity)


def calculate(inputs: MidInputs) -> MidTerms:
    """Evaluate the formula at the head of this module."""
    unallocated = max(inputs.allocatable - inputs.allocated_prod, 0)
    unused: int | None = None
    if inputs.static_percent is not None:
        source, unallocated_share = Source.STATIC, 0
        reclaimable = share(inputs.capacity, inputs.static_percent)
        cap = share(inputs.capacity, inputs.threshold_percent)
        calculated = min(reclaimable, cap)
    else:
        source, reclaimable = _reclaimable(inputs)
        cap = share(inputs.allocatable, inputs.threshold_percent)
        unallocated_share = share(unallocated, inputs.unallocated_percent)
        unused = max(inputs.unused, 0)
        calculated = min(min(reclaimable, cap) + unallocated_share, unused)
    requested = inputs.allocated_mid if inputs.bound_before is None else inputs.bound_before
    floor = floor_of(requested, inputs.capacity) if inputs.floor else 0
    return MidTerms(
        source, reclaimable, cap, unallocated, unallocated_share, unused, calculated, floor, max(calculated, floor)
    )


def _reclaimable(inputs: MidInputs) -> tuple[Source, int]:
    if inputs.peak_prod is not None:
        charged = share(inputs.allocated_prod, inputs.reclaim_ratio_percent)
        return Source.PEAK, max(0, min(charged, inputs.allocatable) - inputs.peak_prod)
    if inputs.reclaimable_reported is not None:
        return Source.REPORTED, max(0, inputs.reclaimable_reported)
    return Source.NONE, 0
