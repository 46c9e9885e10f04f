"""The wall clock. Programs read it here, at their edge; every other module takes `now` as an argument."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from dataclasses import dataclass


def utc_now() -> dt.datetime:
    """Return the current time, aware, in UTC."""
    return dt.datetime.now(dt.UTC)  # noqa: TID251  # the one place that reads the clock


@dataclass(slots=True)
class CheckedClock:
    """Clock of this machine, or another one where they differ by more than `tolerance`."""

    read_other: Callable[[], dt.datetime | None]
    """Returns the time of the other clock; None where it is not known."""
    tolerance: dt.timedelta
    ahead: dt.timedelta = dt.timedelta()
    is_wrong: bool = False

    def now(self) -> dt.datetime:
        """Return the time, aware, in UTC."""
        own, other = utc_now(), self.read_other()
        if other is None:
            return own
        self.ahead = own - other
        self.is_wrong = abs(self.ahead) > (self.tolerance / 2 if self.is_wrong else self.tolerance)
        return other if self.is_wrong else own

    def seconds_ahead(self) -> float:
        """Return the difference of this machine's clock from the other one, as of the last reading."""
        return self.ahead.total_seconds()
