"""What a report and a policy allow, calculated apart from the product, from the objects on the wire."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tests.model.world import ALLOCATABLE, CAPACITY, CPU

_THRESHOLD = {CPU: "midCPUThresholdPercent", "memory": "midMemoryThresholdPercent"}


def amount(native: str, wire: Any) -> int:
    """Return milli-cores or bytes of the notations that the programs write."""
    text = str(wire)
    if native == CPU:
        return int(text[:-1]) if text.endswith("m") else int(text) * 1000
    return int(text)


_DEFAULTS = {"midReclaimRatioPercent": 100, "midUnallocatedPercent": 0, **dict.fromkeys(_THRESHOLD.values(), 100)}


def most_calculated(
    policies: Iterable[dict[str, Any]],
    status: dict[str, Any],
    unused: int,
    native: str,
    *,
    without_prediction: bool = False,
) -> int | None:
    """Return the largest Calculated by a report and any of these policies, with the true Unused.

    None where no policy allows to calculate, or the report does not. A report without a prediction allows it only where
    the last prediction is too old to be kept.
    """
    found = [_calculated(_DEFAULTS | policy, status, unused, native, without_prediction) for policy in policies]
    return max((each for each in found if each is not None), default=None)


def _calculated(
    policy: dict[str, Any], status: dict[str, Any], unused: int, native: str, without_prediction: bool
) -> int | None:
    if not policy.get("enable") or policy.get("midReclaimMode") == "static":
        return None
    peak = ((status.get("prodPeakMetric") or {}).get("resource") or {}).get("resources")
    allocated = status.get("allocated")
    if not allocated or not (peak or without_prediction):
        return None
    total = ALLOCATABLE[native]
    prod = amount(native, allocated["prod"][native])
    charged = prod * policy["midReclaimRatioPercent"] // 100
    reclaimable = max(0, min(charged, total) - amount(native, peak[native])) if peak else 0
    share = max(total - prod, 0) * policy["midUnallocatedPercent"] // 100
    return min(min(reclaimable, total * policy[_THRESHOLD[native]] // 100) + share, unused)


def sum_of_terms(line: dict[str, Any]) -> int:
    """Return the value that the terms of a status annotation add up to."""
    value = min(line["reclaimable"], line["cap"]) + line.get("unallocatedShare", 0)
    if line.get("unused") is not None and line.get("source") != "static":
        value = min(value, line["unused"])
    value = min([value, *(line[bound] for bound in ("usable", "totalLimit") if line.get(bound) is not None)])
    value = max(value, line.get("floor") or 0)
    return value if line.get("riseLimit") is None else min(value, line["riseLimit"])


THRESHOLD_PERCENT, TOLERANCE_PERCENT = 70, 10


def memory_beside_mid(status: dict[str, Any]) -> int:
    """Return the memory that everything but Mid uses, by a report."""
    return sum(amount("memory", status["usage"][kind]["memory"]) for kind in ("prod", "batchAndFree", "system"))


def may_be_short(policy: dict[str, Any], status: dict[str, Any], native: str) -> bool:
    """Check whether a report may show less for Mid than its pods request, beyond the tolerance."""
    lent = ("prod", "system") if native == CPU else ("prod", "batchAndFree", "system")
    used = sum(amount(native, status["usage"][kind][native]) for kind in lent) if status.get("usage") else None
    if used is None or not status.get("prodPeakMetric"):
        return True
    calculated = _calculated(_DEFAULTS | policy, status, max(ALLOCATABLE[native] - used, 0), native, False)
    held = amount("memory", status["allocated"]["mid"][f"kubernetes.io/mid-{native}"])
    return calculated is None or (held - calculated) * 100 > TOLERANCE_PERCENT * held


def memory_is_high(status: dict[str, Any]) -> bool:
    """Check whether a report shows a node above the threshold."""
    used = memory_beside_mid(status) + amount("memory", status["usage"]["mid"]["memory"])
    return used * 100 >= THRESHOLD_PERCENT * CAPACITY["memory"]
