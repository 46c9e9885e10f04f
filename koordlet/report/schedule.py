"""Schedule of reports: one every interval, and early ones when the prediction moved. Monotonic seconds."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

LEAST_SECONDS_BETWEEN_WRITES: Final = 5.0
_FLOOR_OF_CHANGE: Final = 0.01
"""Smallest base of a relative change, as a share of allocatable: a change from 2 m to 4 m is noise."""

_JITTER: Final = 0.1
"""After a start or a failure, the next report is moved up by up to this share of the interval, so that the agents of a
cluster do not write in step. Later reports keep the interval, so that a quiet node writes no more often than
configured."""

Units = Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Published:
    """Values of the last published report, to which an early report is compared."""

    peak: Units | None
    reclaimable: Units | None


def moved(new: Units | None, old: Units | None, allocatable: Units, threshold_percent: float) -> bool:
    """Return whether any resource moved by more than the threshold. Values that appear or vanish have moved."""
    if new is None or old is None:
        return new is not old
    return any(
        abs(value - old.get(name, 0)) * 100
        > threshold_percent * max(old.get(name, 0), _FLOOR_OF_CHANGE * allocatable.get(name, 0))
        for name, value in new.items()
    )


def has_moved(new: Published, old: Published, allocatable: Units, threshold_percent: float) -> bool:
    """Return whether Peak[Prod] or reclaimable moved enough for an early report."""
    return moved(new.peak, old.peak, allocatable, threshold_percent) or moved(
        new.reclaimable, old.reclaimable, allocatable, threshold_percent
    )


def seconds_between_reports(report_interval_seconds: float, force_update_interval_seconds: float) -> float:
    """Return the report interval, bounded by the forced update interval."""
    return min(report_interval_seconds, force_update_interval_seconds)


class ReportSchedule:
    """Times of checks and writes. The first report is due at once."""

    def __init__(self) -> None:
        self._last_report = -math.inf
        self._next_report = -math.inf
        self._next_check = -math.inf
        self._earliest_write = -math.inf
        self._may_be_in_step = True

    def is_check_due(self, now: float) -> bool:
        """Return whether it is time to check for a reason to write."""
        return now >= self._earliest_write and now >= min(self._next_check, self._next_report)

    def checked(self, now: float, check_interval_seconds: float, interval_seconds: float) -> None:
        """Schedule the next check after the check interval. An interval that became shorter applies at once."""
        self._next_check = now + check_interval_seconds
        self._next_report = min(self._next_report, self._last_report + interval_seconds)

    def is_due(self, now: float) -> bool:
        """Return whether a report is due even without a moved prediction."""
        return now >= self._next_report

    def written(self, now: float, interval_seconds: float, uniform: float) -> None:
        """Schedule the next report after a written one.

        After a start or a failure it is moved up by up to 10 % of the interval, times `uniform` (random in [0, 1)).
        """
        self._last_report = now
        self._next_report = now + interval_seconds * (1.0 - _JITTER * uniform * self._may_be_in_step)
        self._may_be_in_step = False
        self._earliest_write = now + LEAST_SECONDS_BETWEEN_WRITES

    def failed(self, now: float, pause_seconds: float) -> None:
        """Delay the next attempt, which has newer values, after a failed write."""
        self._may_be_in_step = True
        self._earliest_write = now + max(LEAST_SECONDS_BETWEEN_WRITES, pause_seconds)
