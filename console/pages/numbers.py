"""Format amounts and times for the pages; what is not known is a dash. Pure."""

from __future__ import annotations

import datetime as dt
from typing import Final

from api_types.kubernetes import times

UNKNOWN: Final = "–"  # noqa: RUF001  # a dash, as wide as a digit
_GIB: Final = 2**30


def cores(millis: float | None) -> str:
    """Format milli-cores as cores."""
    if millis is None:
        return UNKNOWN
    value = millis / 1000
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def gib(count: float | None) -> str:
    """Format bytes as GiB."""
    return UNKNOWN if count is None else f"{count / _GIB:,.0f}" if abs(count) >= 100 * _GIB else f"{count / _GIB:.1f}"


def amount(value: float | None, resource: str) -> str:
    """Format milli-cores or bytes, by the resource `cpu` or `memory`."""
    return cores(value) if resource == "cpu" else gib(value)


def percent(value: float | None, digits: int = 0) -> str:
    """Format a share in percent."""
    return UNKNOWN if value is None else f"{value:.{digits}f} %"


def age(seconds: float | None) -> str:
    """Format an age by its largest unit, as kubectl does."""
    return UNKNOWN if seconds is None else "{} {}".format(*times.rounded_age(seconds))


def clock_time(time: dt.datetime | None) -> str:
    """Format the time of day in UTC."""
    return time.astimezone(dt.UTC).strftime("%H:%M:%S") if time else UNKNOWN


def minute(time_seconds: float) -> str:
    """Format a time by hour and minute in UTC."""
    return dt.datetime.fromtimestamp(time_seconds, dt.UTC).strftime("%H:%M")
