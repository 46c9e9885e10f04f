"""Steps of a back-test, and the UTC days that they are read by. No I/O."""

from __future__ import annotations

from typing import Final, NamedTuple

DAY_SECONDS: Final = 86_400
_LATEST_SAMPLE_SECONDS: Final = 3600
"""A day is complete so long after its end: samples arrive late, and the clocks of two machines differ."""


class TimeRange(NamedTuple):
    """Steps at multiples of `step_seconds`; `start` is the first, Unix seconds."""

    start: int
    step_seconds: int
    steps: int

    @property
    def end(self) -> int:
        """Time of the last step."""
        return self.start + (self.steps - 1) * self.step_seconds

    def part(self, first: int, steps: int) -> TimeRange:
        """Return `steps` steps from number `first` on."""
        return TimeRange(self.start + first * self.step_seconds, self.step_seconds, steps)


class RangeDay(NamedTuple):
    """Steps of a UTC day; all of them where `is_complete`."""

    time_range: TimeRange
    is_complete: bool
    """Whether the day is over, so that its samples do not change any more."""


def between(start_seconds: int, end_seconds: int, step_seconds: int) -> TimeRange:
    """Return the steps from a time to another, both included where they are multiples of the step."""
    first = -(-start_seconds // step_seconds) * step_seconds
    return TimeRange(first, step_seconds, (end_seconds - first) // step_seconds + 1)


def split_days(time_range: TimeRange, now_seconds: float) -> list[RangeDay]:
    """Return the days of a time range, in order. A complete day is whole, also where the range begins or ends in it."""
    days = []
    for day in range(time_range.start // DAY_SECONDS, time_range.end // DAY_SECONDS + 1):
        begin, end = day * DAY_SECONDS, (day + 1) * DAY_SECONDS
        is_complete = end + _LATEST_SAMPLE_SECONDS <= now_seconds
        if not is_complete:
            begin, end = max(begin, time_range.start), min(end, time_range.end + 1)
        steps = between(begin, end - 1, time_range.step_seconds)
        if steps.steps > 0:
            days.append(RangeDay(steps, is_complete))
    return days
