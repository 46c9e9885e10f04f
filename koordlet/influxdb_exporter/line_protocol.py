"""One point as a line of InfluxDB's line protocol: `measurement,tag=value field=1.5 1700000000`. Pure.

All fields are floats: the first write fixes a field's type in a bucket, and a point of another type is refused (422).
"""

from __future__ import annotations

import math
from collections.abc import Mapping

_MEASUREMENT = str.maketrans({",": r"\,", " ": r"\ ", "\n": r"\n"})
_KEY_OR_TAG = str.maketrans({",": r"\,", "=": r"\=", " ": r"\ ", "\n": r"\n"})


def line(measurement: str, tags: Mapping[str, str], fields: Mapping[str, float], at_seconds: int) -> str | None:
    """One point, without the end of line; None when no field has a value.

    `at_seconds` is Unix time. Tags are written in the order given (InfluxDB is quickest when sorted by key). What line
    protocol cannot say is left out: a tag without a value, a field that is no finite number.
    """
    values = ",".join(f"{key}={float(value)!r}" for key, value in fields.items() if math.isfinite(value))
    if not values:
        return None
    labels = "".join(f",{key}={tag_value(value)}" for key, value in tags.items() if value)
    return f"{measurement.translate(_MEASUREMENT)}{labels} {values} {at_seconds:d}"


def tag_value(text: str) -> str:
    """Text with the escapes of a tag's value; a trailing backslash, which would escape the separator, is dropped."""
    return text.rstrip("\\").translate(_KEY_OR_TAG)
