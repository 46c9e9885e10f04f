"""When a report is due: every interval, and early when the prediction moved (design 3.3). Monotonic seconds."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

LEAST_SECONDS_BETWEEN_WRITES: Final = 5.0
_FLOOR_OF_CHANGE: Final = 0.01
"""A change is relative to what was published, but at least to 1 % of allocatable: 2 m to 4 m is noise, not news."""

_JITTER: Final = 0.1
"""After a start and after a failure the next report comes up to this share of the interval early, so that the agents of
a cluster do not write in step; then every interval, so that a quiet node writes no more often than it was told to."""

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


class ReportSchedule:
    """When to look and when to write. The first report is due at once."""

    def __init__(self) -> None:
        self._last_report = -math.inf
        self._next_report = -math.inf
        self._next_check = -math.inf
        self._earliest_write = -math.inf
        self._may_be_in_step = True

    def may_look(self, now: float) -> bool:
        """Whether it is time to find out if something is worth a write."""
        return now >= self._earliest_write and now >= min(self._next_check, self._next_report)

    def looked(self, now: float, check_interval_seconds: float, interval_seconds: float) -> None:
        """Look for news again after the check interval; an interval that was shortened meanwhile holds from now on."""
        self._next_check = now + check_interval_seconds
        self._next_report = min(self._next_report, self._last_report + interval_seconds)

    def is_due(self, now: float) -> bool:
        """Whether a report is written without news."""
        return now >= self._next_report

    def written(self, now: float, interval_seconds: float, uniform: float) -> None:
        """A report was written; `uniform`, drawn from [0, 1), is how early the next one comes where it may be early."""
        self._last_report = now
        self._next_report = now + interval_seconds * (1.0 - _JITTER * uniform * self._may_be_in_step)
        self._may_be_in_step = False
        self._earliest_write = now + LEAST_SECONDS_BETWEEN_WRITES

    def failed(self, now: float, pause_seconds: float) -> None:
        """A report was not written; the next attempt, with newer values, waits."""
        self._may_be_in_step = True
        self._earliest_write = now + max(LEAST_SECONDS_BETWEEN_WRITES, pause_seconds)
