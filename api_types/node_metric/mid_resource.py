"""Compute the Mid resources of a node and every term of the formula, in integers of milli-cores and bytes.

```
Reclaimable = max(0, min( midReclaimRatio * Allocated[Prod] - Peak[Prod],  NodeAllocatable - Peak[Prod] ))
Share       = midUnallocatedPercent * max( NodeAllocatable - Allocated[Prod] - Allocated[below Prod], 0 )
Calculated  = min( min( Reclaimable, NodeAllocatable * midThreshold ) + Share,  Unused,  Usable,
                   NodeAllocatable * midTotalThreshold )
Floor       = min( Allocated[Mid], capacity )                                         0 with midFloor = none
Published   = max( Calculated, Floor )
```
Without a Peak, or with a Peak of another snapshot than the requests (Koordinator's agent), Reclaimable is the value of
the report; without a prediction it is 0. `Unused` is what nothing but Mid uses, 0 where the usage is not known.
`Usable` is the memory that Mid may use before a node whose memory evicts Mid pods does so; other nodes have no such
bound. In static mode Reclaimable is `Capacity * midStaticReserved`, the cap is `Capacity * midThreshold`, nothing
unallocated is added, and the usage does not count. Shares are rounded down.

The manager publishes `Terms.value`. The floor only protects running pods; the scheduler's Mid guard admits pods by
`Terms.calculated`, for the newest report. `mid_report` makes the inputs for both, and `TERMS` describes each term.
See docs/concepts/mid-resources.md.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from typing import Annotated, Final, NamedTuple

import msgspec

from api_types import names
from api_types.kubernetes import quantities

MID_OF_NATIVE: Final[Mapping[str, str]] = {names.CPU: names.MID_CPU, names.MEMORY: names.MID_MEMORY}
"""Native resource -> the Mid resource that is calculated from it."""
_GIB, _MIB = 1 << 30, 1 << 20


class Source(enum.StrEnum):
    """Source of the Reclaimable term."""

    PEAK = "peak"
    REPORTED = "reported"
    STATIC = "static"
    NONE = "none"
    """No prediction: Reclaimable is 0."""


class Terms(msgspec.Struct, rename="camel", omit_defaults=True, frozen=True):
    """Inputs, results and published value for one resource of one node, as in the status annotation.

    In milli-cores or bytes; shares in percent. A term that was not used is absent.
    """

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
    allocated_below_prod: int | None = None
    allocated_mid: int | None = None
    peak_prod: int | None = None
    """Predicted peak, of the same snapshot as `allocated_prod`."""
    reclaim_ratio_percent: int | None = None
    threshold_percent: int | None = None
    unallocated_percent: int | None = None
    static_percent: int | None = None
    """Share of capacity; set in static mode only."""
    reclaimable: int | None = None
    cap: int | None = None
    unallocated: int | None = None
    unallocated_share: int | None = None
    unused: int | None = None
    """Amount that nothing but Mid uses."""
    usable: int | None = None
    """Memory that Mid pods may use before the node evicts them; absent where it evicts none for its memory."""
    total_limit: int | None = None
    """Bound of midTotalThresholdPercent, where it is lower than the sum and than `unused`."""
    calculated: int | None = None
    """Value without the floor: min(min(reclaimable, cap) + unallocatedShare, unused, usable, totalLimit)."""
    bound_before: int | None = None
    """Requests that the floor counts instead of `allocatedMid`: those of Mid pods bound before Mid began to shrink."""
    floor: int | None = None
    """Requests of Mid pods, at most the capacity; max(calculated, floor) is published. Absent with midFloor none."""
    rise_limit: int | None = None
    """Bound of midMaxIncreasePercent on this update, where it is lower than that."""

    @property
    def value(self) -> int:
        """Return what is to be published: the calculated value, at least the floor."""
        return max(self.calculated or 0, self.floor or 0)

    @property
    def left_by_prod(self) -> int:
        """Return what is calculated without `usable`, which bounds offers: no pod leaves for what it might use."""
        if self.usable is None:
            return self.calculated or 0
        bounds = (self.unused or 0, self.total_limit)
        return min(_offered(self), *(bound for bound in bounds if bound is not None))

    @property
    def counted_mid(self) -> int:
        """Return the requests of Mid pods that the floor counts."""
        return (self.allocated_mid if self.bound_before is None else self.bound_before) or 0


def share(amount: int, percent: int) -> int:
    """Return `percent` of an amount, rounded down."""
    return amount * percent // 100


def bounded_floor(requested: int, capacity: int) -> int:
    """Return the floor for the requests of Mid pods: a node never publishes more than it has because of them."""
    return min(requested, capacity)


def calculate(
    inputs: Terms, *, reclaimable_reported: int | None = None, total_percent: int = 100, has_floor: bool = True
) -> Terms:
    """Evaluate the formula at the head of this module: complete the inputs by the results.

    `reclaimable_reported` is the amount of the report, used where there is no peak; `total_percent` is of allocatable.
    Without a floor none is published.
    """
    allocatable, capacity = inputs.allocatable or 0, inputs.capacity or 0
    threshold = 100 if inputs.threshold_percent is None else inputs.threshold_percent
    floor = bounded_floor(inputs.counted_mid, capacity) if has_floor else None
    if inputs.static_percent is not None:
        reclaimable, cap = share(capacity, inputs.static_percent), share(capacity, threshold)
        return msgspec.structs.replace(
            inputs, source=Source.STATIC.value, reclaimable=reclaimable, cap=cap, unallocated_share=0,
            calculated=min(reclaimable, cap), floor=floor,
            peak_prod=None, reclaim_ratio_percent=None, unallocated_percent=None, unused=None, usable=None,
        )  # fmt: skip
    source, reclaimable = _reclaimable(inputs, reclaimable_reported)
    cap, unused = share(allocatable, threshold), max(inputs.unused or 0, 0)
    unallocated = max(allocatable - (inputs.allocated_prod or 0) - (inputs.allocated_below_prod or 0), 0)
    unallocated_share = share(unallocated, inputs.unallocated_percent or 0)
    result, total = min(min(reclaimable, cap) + unallocated_share, unused), share(allocatable, total_percent)
    usable = result if inputs.usable is None else inputs.usable
    return msgspec.structs.replace(
        inputs, source=source.value, reclaimable=reclaimable, cap=cap, unallocated=unallocated,
        unallocated_share=unallocated_share, unused=unused, total_limit=total if total < result else None,
        calculated=min(result, total, usable), floor=floor,
    )  # fmt: skip


def _reclaimable(inputs: Terms, reported: int | None) -> tuple[Source, int]:
    if inputs.peak_prod is not None:
        ratio = 100 if inputs.reclaim_ratio_percent is None else inputs.reclaim_ratio_percent
        charged = share(inputs.allocated_prod or 0, ratio)
        return Source.PEAK, max(0, min(charged, inputs.allocatable or 0) - inputs.peak_prod)
    if reported is not None:
        return Source.REPORTED, max(0, reported)
    return Source.NONE, 0


REPORT: Final = "NodeMetric status"
"""Begins the source of each term that has the time of the report."""
FORMULA: Final = "calculated"
REQUESTS: Final = "requests"
"""In place of the source of the requests: the report, or the node's pods."""
_STRATEGY: Final = "NodeMetric spec.midColocationPolicy"
_PODS: Final = "the node's pods, listed once"


class FormulaTerm(NamedTuple):
    """One term, in the order in which an explanation names it."""

    name: str
    """Field of `Terms`."""
    sentence: str
    """Has a place for the amount, and may have one for `whole`: capacity or allocatable."""
    source: str = ""
    """Object and field of the value; empty for a value that a key sets."""
    key: str = ""
    """Key of the configuration that sets the term, with a place for CPU or Memory."""
    binds: Callable[[Terms], bool] | None = None
    """Check whether a bound changes the result; None for a term that is no bound."""
    label: str = ""
    """Value of the label `term` in the metrics; empty for a term that they lack."""


def _offered(terms: Terms) -> int:
    return min(terms.reclaimable or 0, terms.cap or 0) + (terms.unallocated_share or 0)


TERMS: Final = (
    FormulaTerm("allocatable", "The node lets pods request {}.", "Node status.allocatable"),
    FormulaTerm("reserved", "Its reservation holds {} back.", f"Node annotation {names.ANNOTATION_NODE_RESERVATION}"),
    FormulaTerm("capacity", "The node has {}.", "Node status.capacity"),
    FormulaTerm("allocated_prod", "Prod pods request {}.", REQUESTS),
    FormulaTerm("allocated_below_prod", "Pods of lower classes request {} natively.", REQUESTS),
    FormulaTerm("peak_prod", "Prod pods are predicted to need {} at most.", f"{REPORT}.prodPeakMetric"),
    FormulaTerm("reclaim_ratio_percent", "Counted of the Prod requests: {}.", key="midReclaimRatioPercent"),
    FormulaTerm("static_percent", "Static mode publishes {} of the capacity.", key="midStatic{native}ReservedPercent"),
    FormulaTerm("reclaimable", "Reclaimable: {}.", FORMULA, label="reclaimable"),
    FormulaTerm("threshold_percent", "The cap is {} of the {whole}.", key="mid{native}ThresholdPercent"),
    FormulaTerm(
        "cap", "The cap in numbers: {}.", FORMULA, "mid{native}ThresholdPercent",
        lambda terms: (terms.cap or 0) < (terms.reclaimable or 0),
    ),
    FormulaTerm("unallocated", "Requested by no pod: {}.", FORMULA),
    FormulaTerm("unallocated_percent", "{} of that is added.", key="midUnallocatedPercent"),
    FormulaTerm("unallocated_share", "That adds {}.", FORMULA, "midUnallocatedPercent", label="unallocated_share"),
    FormulaTerm(
        "unused", "Nothing but Mid uses {}.", f"{REPORT}.usage, or capacity minus nodeMetric.nodeUsage",
        binds=lambda terms: (terms.unused or 0) < _offered(terms),
        label="unused",
    ),
    FormulaTerm(
        "usable", "Mid pods may use {} before the node evicts them for its memory.", f"{REPORT}.usage",
        "midEviction.memoryThresholdPercent",
        lambda terms: (terms.usable or 0) < min(_offered(terms), terms.unused or 0), "usable",
    ),
    FormulaTerm(
        "total_limit", "No more than {} is offered in total.", key="midTotalThresholdPercent",
        binds=lambda _: True,  # it is a term only where it does
    ),
    FormulaTerm(
        "calculated", "The formula gives {}; new Mid pods are admitted up to it.", FORMULA, label="calculated"
    ),
    FormulaTerm("allocated_mid", "Mid pods request {}.", REQUESTS, label="allocated"),
    FormulaTerm("bound_before", "Of that, {} were bound before Mid began to shrink.", _PODS),
    FormulaTerm(
        "floor", "No less than this floor is published, which is at most the capacity: {}.", key="midFloor",
        binds=lambda terms: (terms.floor or 0) > (terms.calculated or 0), label="floor",
    ),
    FormulaTerm(
        "rise_limit", "A single update may rise to at most {}.", key="midMaxIncreasePercent",
        binds=lambda _: True,  # it is a term only where it does
    ),
    FormulaTerm("published", "Written to the node: {}.", "Node status.allocatable and status.capacity"),
)  # fmt: skip
"""Every term that a status annotation may have."""
_RECLAIMABLE: Final[Mapping[str, tuple[str, str]]] = {
    Source.PEAK: ("Requested and not needed by the predicted peak: {}.", FORMULA),
    Source.REPORTED: ("Reclaimable, as the agent reports: {}.", f"{REPORT}.prodReclaimableMetric"),
    Source.STATIC: ("That is {}, independent of the usage.", FORMULA),
    Source.NONE: ("Reclaimable without a prediction: {}.", FORMULA),
}
_REQUESTS_FROM: Final[Mapping[str, str]] = {
    "pods": _PODS,
    "unknown": "not known, because the list of the node's pods failed; assumed",
}


def amount(mid: str, value: int) -> str:
    """Format milli-cores or bytes: "1.5 cores", "2.3 GiB", "20.0 MiB"."""
    if value >= quantities.UNKNOWN:
        return f"an amount of {mid} that cannot be read"
    if mid == names.MID_CPU:
        return f"{value / 1000:g} cores"
    if value >= _GIB / 10:
        return f"{value / _GIB:.1f} GiB"
    return f"{value / _MIB:.1f} MiB" if value >= _MIB else f"{value} bytes"


def described(terms: Terms, mid: str, requests_from: str) -> list[FormulaTerm]:
    """Return the terms that a resource has, with sentence, source and key as they are for its source and mode."""
    native = "CPU" if mid == names.MID_CPU else "Memory"
    is_static = terms.source == Source.STATIC
    found = []
    for term in TERMS:
        if getattr(terms, term.name) is None:
            continue
        sentence, source, key = term.sentence, term.source, term.key.format(native=native)
        if term.name == "reclaimable":
            sentence, source = _RECLAIMABLE.get(terms.source, (sentence, source))
            key = f"midStatic{native}ReservedPercent" if is_static else ""
        elif term.name == "unallocated_share" and is_static:
            key = ""
        elif term.source == REQUESTS:
            source = _REQUESTS_FROM.get(requests_from, f"{REPORT}.allocated")
        sentence = sentence.replace("{whole}", "capacity" if is_static else "allocatable")
        found.append(term._replace(sentence=sentence, source=source or f"{_STRATEGY}.{key}", key=key))
    return found
