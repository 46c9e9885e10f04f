"""Times and durations as they stand on the wire: RFC 3339 moments, Go durations.

Moments become seconds since the epoch, durations whole nanoseconds as in Go, so that equal texts of a duration
("5m", "5m0s", "300s") are one key.
"""

from __future__ import annotations

import datetime as dt
import functools
import re
from fractions import Fraction
from typing import Final

_UNIT_NANOS: Final = {
    "ns": 1,
    "us": 1_000,
    "µs": 1_000,  # micro sign
    "μs": 1_000,  # Greek letter mu
    "ms": 1_000_000,
    "s": 1_000_000_000,
    "m": 60_000_000_000,
    "h": 3_600_000_000_000,
}
_MOST_NANOS: Final = 2**63 - 1  # of Go: 292 years
_PART: Final = r"(\d+\.?\d*|\.\d+)(ns|us|µs|μs|ms|s|m|h)"
_DURATION: Final = re.compile(rf"[+-]?(?:0|(?:{_PART})+)", re.ASCII)
_PARTS: Final = re.compile(_PART, re.ASCII)


@functools.lru_cache(maxsize=1024)
def duration_nanos(text: str) -> int:
    """Nanoseconds of a Go duration such as "5m0s", "1.5h", "-300ms" or "0". Raises ValueError."""
    if not _DURATION.fullmatch(text):
        raise ValueError(f"{text!r} is not a duration, want one like 5m0s or 1h30m")
    size = sum(int(Fraction(number) * _UNIT_NANOS[unit]) for number, unit in _PARTS.findall(text))
    if size > _MOST_NANOS:
        raise ValueError(
            f"{text[:100]!r} is longer than a duration can be, want at most {_MOST_NANOS // 10**9 // 3600}h"
        )
    return -size if text.startswith("-") else size


@functools.lru_cache(maxsize=65536)
def epoch_seconds(text: str) -> float:
    """Seconds since the epoch of an RFC 3339 moment. Raises ValueError, also for one without a zone."""
    moment = dt.datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError(f"{text!r} has no time zone, want one like 2006-01-02T15:04:05Z")
    return moment.timestamp()


def moment_or_none(text: str | None) -> float | None:
    """Seconds since the epoch; None for an absent, empty or malformed moment: no data is not a time."""
    if not text:
        return None
    try:
        return epoch_seconds(text)
    except ValueError:
        return None
