"""Compute the Mid resources of a node and every term of the formula, in integers of milli-cores and bytes.

```
Reclaimable = max(0, min( midReclaimRatio * Allocated[Prod] - Peak[Prod],  NodeAllocatable - Peak[Prod] ))
Mid         = min( Reclaimable, NodeAllocatable * midThreshold )
              + midUnallocatedPercent * max( NodeAllocatable - Allocated[Prod], 0 )
Mid         = max( Mid, Allocated[Mid] )                                              if midFloor = allocated
```
Without a Peak, or with a Peak of another snapshot than the requests (Koordinator's agent), Reclaimable is the value of
the report. In static mode Reclaimable is `Capacity * midStaticReserved`, the cap is `Capacity * midThreshold`, and
nothing unallocated is added. Shares are rounded down. The manager publishes the value of `calculate`; the scheduler's
Mid guard evaluates it for the newest report; `mid_report` makes the inputs for both.
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


class NoPredictionError(Exception):
    """The future usage of the Prod pods is unknown."""


class Source(enum.StrEnum):
    """Source of the Reclaimable term."""

    PEAK = "peak"
    REPORTED = "reported"
    STATIC = "static"


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
    reclaim_ratio_percent: int = 100
    threshold_percent: int = 100
    unallocated_percent: int = 0
    floor: bool = True
    """Whether at least `allocated_mid` is published."""
    static_percent: int | None = None
    """Share of capacity; set in static mode only."""


@dataclass(frozen=True)
class MidTerms:
    """Every term of the formula: value = max(min(reclaimable, cap) + unallocated_share, floor)."""

    source: Source
    reclaimable: int
    cap: int
    unallocated: int
    unallocated_share: int
    floor: int
    value: int


def share(amount: int, percent: int) -> int:
    """Return `percent` of an amount, rounded down."""
    return amount * percent // 100


def calculate(inputs: MidInputs) -> MidTerms:
    """Evaluate the formula at the head of this module. Raises NoPredictionError."""
    unallocated = max(inputs.allocatable - inputs.allocated_prod, 0)
    if inputs.static_percent is not None:
        source, unallocated_share = Source.STATIC, 0
        reclaimable = share(inputs.capacity, inputs.static_percent)
        cap = share(inputs.capacity, inputs.threshold_percent)
    else:
        source, reclaimable = _reclaimable(inputs)
        cap = share(inputs.allocatable, inputs.threshold_percent)
        unallocated_share = share(unallocated, inputs.unallocated_percent)
    floor = inputs.allocated_mid if inputs.floor else 0
    value = max(min(reclaimable, cap) + unallocated_share, floor)
    return MidTerms(source, reclaimable, cap, unallocated, unallocated_share, floor, value)


def _reclaimable(inputs: MidInputs) -> tuple[Source, int]:
    if inputs.peak_prod is not None:
        charged = share(inputs.allocated_prod, inputs.reclaim_ratio_percent)
        return Source.PEAK, max(0, min(charged, inputs.allocatable) - inputs.peak_prod)
    if inputs.reclaimable_reported is not None:
        return Source.REPORTED, max(0, inputs.reclaimable_reported)
    raise NoPredictionError("the report has neither prodPeakMetric nor prodReclaimableMetric")
