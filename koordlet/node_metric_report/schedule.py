"""When a report is due: every interval, and early when the prediction moved (design 3.3). Monotonic seconds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

LEAST_SECONDS_BETWEEN_WRITES: Final = 5.0
_FLOOR_OF_CHANGE: Final = 0.01
"""A change is relative to what was published, but at least to 1 % of allocatable: 2 m to 4 m is noise, not news."""

Units = Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Published:
    """What stands at the apiserver: the values an early report is judged by."""

    peak: Units | None
    reclaimable: Units | None


def moved(new: Units | None, old: Units | None, allocatable: Units, threshold_percent: float) -> bool:
    """Whether any resource moved by more than the threshold; values that appear or vanish have moved."""
    if new is None or old is None:
        return new is not old
    return any(
        abs(value - old.get(name, 0)) * 100
        > threshold_percent * max(old.get(name, 0), _FLOOR_OF_CHANGE * allocatable.get(name, 0))
        for name, value in new.items()
    )


def is_news(new: Published, old: Published, allocatable: Units, threshold_percent: float) -> bool:
    """Whether Peak[Prod] or reclaimable moved enough for an early report."""
    return moved(new.peak, old.peak, allocatable, threshold_percent) or moved(
        new.reclaimable, old.reclaimable, allocatable, threshold_percent
    )


def seconds_between_reports(report_interval_seconds: float, force_update_interval_seconds: float) -> float:
    """The report interval, bounded by the forced update interval."""
    return min(report_interval_seconds, force_update_interval_seconds)
