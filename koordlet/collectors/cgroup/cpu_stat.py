"""Parser of a group's cpu.stat for its CPU limit: number of periods, and of periods with exhausted quota.

|                         | v1 (cpu controller) | v2 (cpu controller) |
| periods with work in it | nr_periods          | nr_periods          |
| of those, throttled     | nr_throttled        | nr_throttled        |

A group counts only its own limit, not those of its subgroups: a container at its limit shows in the container.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

FILE = "cpu.stat"
FEWEST_PERIODS = 10
"""Fewer periods make no reliable share: ten are a second of work at the usual 100 ms."""
_LINES = re.compile(rb"^nr_periods (\d+)\nnr_throttled (\d+)$", re.MULTILINE)


class CpuPeriods(NamedTuple):
    """Counters since the group was created."""

    periods: int
    """Periods in which the limited group had work."""
    throttled: int
    """Periods in which the group was stopped because its quota was used up."""


def cpu_periods(text: bytes) -> CpuPeriods:
    """Parse cpu.stat of either version. ValueError where the kernel counts no periods."""
    match = _LINES.search(text)
    if match is None:
        raise ValueError(f"cpu.stat has no nr_periods and nr_throttled, got {text[:40]!r}")
    return CpuPeriods(int(match[1]), int(match[2]))


def throttled_ratio(before: CpuPeriods, now: CpuPeriods) -> float | None:
    """Return the share of the periods between two readings in which the group was throttled, 0..1.

    None when too few periods passed (no limit, or no work) or when a counter went back. At most 1: a period may end
    while the kernel prints the two numbers.
    """
    periods, throttled = now.periods - before.periods, now.throttled - before.throttled
    return min(throttled / periods, 1.0) if periods >= FEWEST_PERIODS and throttled >= 0 else None


def worst(ratios: Iterable[float | None]) -> float | None:
    """Return the largest ratio of a pod's own group and its containers, None when none is known."""
    return max((ratio for ratio in ratios if ratio is not None), default=None)
