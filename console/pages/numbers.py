"""Format amounts and times for the pages; what is not known is a dash. Pure."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import Final

from api_types.kubernetes import times

UNKNOWN: Final = "–"  # noqa: RUF001  # a dash, as wide as a digit
_GIB: Final = 2**30


def cores(millis: float | None) -> str:
    """Format milli-cores as cores."""
    return amount(millis, "cpu")


def gib(count: float | None) -> str:
    """Format bytes as GiB."""
    return amount(count, "memory")


def amount(value: float | None, resource: str) -> str:
    """Format milli-cores or bytes, by the resource `cpu` or `memory`."""
    return column([value], resource)[0]


def column(values: Sequence[float | None], resource: str = "cpu", least_digits: int = 0) -> list[str]:
    """Format the amounts of a column, each with as many digits as the largest: their points are below one another."""
    unit, most_digits = (1000, 2) if resource == "cpu" else (_GIB, 1)
    largest = max((abs(value) / unit for value in values if value is not None), default=0.0)
    digits = max(0 if largest >= 100 else 1 if largest >= 10 else most_digits, least_digits)
    return [UNKNOWN if value is None else f"{value / unit:,.{digits}f}" for value in values]


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
