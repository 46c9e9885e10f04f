"""The wall clock. Programs read it here, at their edge; every other module takes `now` as an argument."""

from __future__ import annotations

import datetime as dt


def utc_now() -> dt.datetime:
    """Return the current time, aware, in UTC."""
    return dt.datetime.now(dt.UTC)  # noqa: TID251  # the one place that reads the clock
