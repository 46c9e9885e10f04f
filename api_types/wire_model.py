"""Base of the pydantic models that travel through the apiserver, and the field types they share."""

from __future__ import annotations

import datetime as dt
import re
from typing import Annotated, Any, Final

import pydantic

from api_types.kubernetes import quantities

_INITIALISMS: Final = {"cpu": "CPU", "id": "ID", "uid": "UID"}


def camel_case(field: str) -> str:
    """Kubernetes' spelling of a field: `mid_cpu_threshold_percent` -> `midCPUThresholdPercent`."""
    first, *rest = field.split("_")
    return first + "".join(_INITIALISMS.get(word, word.capitalize()) for word in rest)


class WireModel(pydantic.BaseModel):
    """A model spelled in camelCase on the wire; fields we do not know are ignored, absent ones stay absent."""

    model_config = pydantic.ConfigDict(
        alias_generator=camel_case,
        populate_by_name=True,
        use_attribute_docstrings=True,
        extra="ignore",
    )

    def to_wire(self) -> dict[str, Any]:
        """JSON-ready dict with the wire's names; what is None is left out."""
        return self.model_dump(mode="json", by_alias=True, exclude_none=True)


def _checked_quantity(value: Any) -> str | int:
    if isinstance(value, float):
        raise ValueError("want an integer or a quantity as text")  # noqa: TRY004  # pydantic turns only ValueError into a problem
    quantities.parse(value)
    return value  # type: ignore[no-any-return]  # parse refuses all but text and numbers


Quantity = Annotated[
    str | int,
    pydantic.PlainValidator(_checked_quantity),
    pydantic.WithJsonSchema({"x-kubernetes-int-or-string": True, "pattern": quantities.PATTERN}),
]
"""A Kubernetes quantity, kept as it was written."""

ResourceList = dict[str, Quantity]
"""Resource name -> quantity."""


def _whole_seconds(value: dt.datetime) -> str:
    return value.astimezone(dt.UTC).replace(microsecond=0).isoformat().replace("+00:00", "Z")


Timestamp = Annotated[
    pydantic.AwareDatetime,
    pydantic.PlainSerializer(_whole_seconds, return_type=str, when_used="json"),
    pydantic.WithJsonSchema({"type": "string", "format": "date-time"}),
]
"""A moment, in whole seconds of UTC on the wire as metav1.Time is."""

_DURATION: Final = re.compile(r"(?:(?P<h>\d{1,10})h)?(?:(?P<m>\d{1,10})m)?(?:(?P<s>\d{1,10}(?:\.\d+)?)s)?", re.ASCII)
_LONGEST_DURATION_SECONDS: Final = 2**63 // 10**9  # Go counts nanoseconds in 64 bits: 292 years


def parse_duration(text: str) -> float:
    """Seconds of a Go duration such as "5m0s" or "1h30m" (hours, minutes, seconds). Raises ValueError."""
    match = _DURATION.fullmatch(text)
    if not text or match is None:
        raise ValueError(f"{text!r} is not a duration, want one like 5m or 1h30m0s")
    seconds = int(match["h"] or 0) * 3600 + int(match["m"] or 0) * 60 + float(match["s"] or 0)
    if seconds > _LONGEST_DURATION_SECONDS:
        raise ValueError(f"{text!r} is longer than 292 years")
    return seconds


def format_duration(seconds: int) -> str:
    """Text Go gives a duration: 300 -> "5m0s", 5400 -> "1h30m0s", 45 -> "45s"."""
    hours, rest = divmod(seconds, 3600)
    minutes, left = divmod(rest, 60)
    if hours:
        return f"{hours}h{minutes}m{left}s"
    return f"{minutes}m{left}s" if minutes else f"{left}s"
