"""RFC 3339 times (metav1.Time, metav1.MicroTime) and Go durations (metav1.Duration) of the Kubernetes API.

Durations are parsed to whole nanoseconds as in Go, so that equal durations ("5m", "5m0s", "300s") compare equal.
A time without a time zone is refused everywhere.
"""

from __future__ import annotations

import datetime as dt
import functools
import math
import re
from fractions import Fraction
from typing import Final

NANOS_PER_SECOND: Final = 10**9
_UNIT_NANOS: Final = {
    "ns": 1,
    "us": 1_000,
    "µs": 1_000,  # micro sign
    "μs": 1_000,  # Greek letter mu
    "ms": 1_000_000,
    "s": NANOS_PER_SECOND,
    "m": 60 * NANOS_PER_SECOND,
    "h": 3_600 * NANOS_PER_SECOND,
}
_MAX_NANOS: Final = 2**63 - 1  # int64 of Go: 292 years
_MOST_CHARACTERS: Final = 64
"""Longest text of a duration; Go prints at most 25. Texts are cached, and matching takes the square of the length."""
_PART: Final = r"(\d+\.?\d*|\.\d+)(ns|us|µs|μs|ms|s|m|h)"
_DURATION: Final = re.compile(rf"[+-]?(?:0|(?:{_PART})+)", re.ASCII)
_PARTS: Final = re.compile(_PART, re.ASCII)


@functools.lru_cache(maxsize=1024)
def duration_nanos(text: str) -> int:
    """Return the nanoseconds of a Go duration such as "5m0s", "1.5h", "-300ms" or "0", as time.ParseDuration does.

    Raises ValueError.
    """
    if len(text) > _MOST_CHARACTERS:
        raise ValueError(
            f"{text[:_MOST_CHARACTERS]!r}... has {len(text)} characters, want a duration of at most {_MOST_CHARACTERS}"
        )
    if not _DURATION.fullmatch(text):
        raise ValueError(f"{text!r} is not a duration, want one like 5m0s or 1h30m")
    size = sum(int(Fraction(number) * _UNIT_NANOS[unit]) for number, unit in _PARTS.findall(text))
    negative = text.startswith("-")
    if size > _MAX_NANOS + negative:
        raise ValueError(
            f"{text!r} is longer than a duration can be, want at most {_MAX_NANOS // NANOS_PER_SECOND // 3600}h"
        )
    return -size if negative else size


def duration_seconds(text: str) -> float:
    """Return the seconds of a Go duration. Raises ValueError."""
    return duration_nanos(text) / NANOS_PER_SECOND


def format_duration(seconds: int) -> str:
    """Format whole seconds as Go prints a duration: 300 -> "5m0s", 5400 -> "1h30m0s", 45 -> "45s"."""
    hours, rest = divmod(seconds, 3600)
    minutes, remainder = divmod(rest, 60)
    if hours:
        return f"{hours}h{minutes}m{remainder}s"
    return f"{minutes}m{remainder}s" if minutes else f"{remainder}s"


def rounded_age(seconds: float) -> tuple[int, str]:
    """Return an age as a count of its largest unit (d, h, m, s), as kubectl shows it, of which it has at least two."""
    count = max(int(seconds), 0)
    for length, unit in ((86_400, "d"), (3_600, "h"), (60, "m")):
        if count >= 2 * length:
            return count // length, unit
    return count, "s"


def short_age(seconds: float) -> str:
    """Format an age as kubectl does."""
    return "{}{}".format(*rounded_age(seconds))


def parse_rfc3339(text: str) -> dt.datetime:
    """Parse a time, in the zone that it names. Raises ValueError, also for a time without a zone."""
    time = dt.datetime.fromisoformat(text)
    if time.tzinfo is None:
        raise ValueError(f"{text!r} has no time zone, want one like 2006-01-02T15:04:05Z")
    return time


def parse_rfc3339_or_none(text: str | None) -> dt.datetime | None:
    """Parse a time into UTC; None for an absent, malformed or zoneless one, and for one outside of the range of UTC."""
    try:
        return parse_rfc3339(text or "").astimezone(dt.UTC)
    except (ValueError, OverflowError):
        return None


def format_rfc3339(time: dt.datetime, timespec: str = "seconds") -> str:
    """Format a time as metav1.Time: UTC in whole seconds, rounded down. Raises ValueError without a time zone."""
    if time.tzinfo is None:
        raise ValueError(f"{time} has no time zone")
    return f"{time.astimezone(dt.UTC).replace(tzinfo=None).isoformat(timespec=timespec)}Z"


def format_micro_time(time: dt.datetime) -> str:
    """Format a time as metav1.MicroTime: UTC with six digits of the second. Raises ValueError without a time zone."""
    return format_rfc3339(time, "microseconds")


@functools.lru_cache(maxsize=4096)
def epoch_seconds(text: str) -> float:
    """Return the seconds since the epoch of an RFC 3339 time. Raises ValueError, also for a time without a zone."""
    return parse_rfc3339(text).timestamp()


def epoch_seconds_or_none(text: str | None) -> float | None:
    """Return the seconds since the epoch; None for an absent, empty or malformed time: no data is not a time."""
    if not text:
        return None
    try:
        return epoch_seconds(text)
    except ValueError:
        return None


def format_epoch(seconds: float) -> str:
    """Format seconds since the epoch as metav1.Time, rounded down to whole seconds."""
    return format_rfc3339(dt.datetime.fromtimestamp(math.floor(seconds), dt.UTC))
