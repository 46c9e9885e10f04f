"""Define the base of the pydantic models that travel through the apiserver, and the field types they share."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Final

import pydantic

from api_types.kubernetes import quantities, times

_INITIALISMS: Final = {"cpu": "CPU", "id": "ID", "uid": "UID"}


def camel_case(field: str) -> str:
    """Return the name of a field in the Kubernetes API: `mid_cpu_threshold_percent` -> `midCPUThresholdPercent`."""
    first, *rest = field.split("_")
    return first + "".join(_INITIALISMS.get(word, word.capitalize()) for word in rest)


_USER_INFO: Final = re.compile(r"""//[^\s"'<>]*@|[^\s"'<>/:@,;=({[]+:[^\s"'<>/]*@""")


class WireModel(pydantic.BaseModel):
    """Base of the models with camelCase names on the wire. Unknown fields are ignored, absent fields stay absent."""

    model_config = pydantic.ConfigDict(
        alias_generator=camel_case, populate_by_name=True, use_attribute_docstrings=True, extra="ignore"
    )

    def to_wire(self) -> dict[str, Any]:
        """Return a JSON-ready dict with the names of the wire. Fields that are None are left out."""
        return self.model_dump(mode="json", by_alias=True, exclude_none=True)


def _checked_quantity(value: Any) -> str | int:
    if isinstance(value, float):
        raise ValueError("want an integer or a quantity as text")  # noqa: TRY004  # pydantic reports only ValueError
    quantities.parse(value)
    return value  # type: ignore[no-any-return]  # parse rejects everything but text and numbers


Quantity = Annotated[
    str | int,
    pydantic.PlainValidator(_checked_quantity),
    pydantic.WithJsonSchema({"x-kubernetes-int-or-string": True, "pattern": quantities.PATTERN}),
]
"""A Kubernetes quantity, kept exactly as written."""


def leaves(wire: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the values of an object with their key paths; lists are values."""
    for key, value in wire.items():
        if isinstance(value, Mapping):
            yield from leaves(value, f"{above}{key}.")
        else:
            yield f"{above}{key}", value


def without_credentials(text: str) -> str:
    """Return a text without the user and the password of the addresses in it, for all that is shown or logged."""
    return _USER_INFO.sub(lambda found: "//" if str(found[0]).startswith("//") else "", text)


Address = Annotated[str, pydantic.PlainSerializer(without_credentials, return_type=str, when_used="json")]
"""A URL, whose user and password are not shown: JSON is for logs and pages."""

ResourceList = dict[str, Quantity]
"""Resource name -> quantity."""


Timestamp = Annotated[
    pydantic.AwareDatetime,
    pydantic.PlainSerializer(times.format_rfc3339, return_type=str, when_used="json"),
    pydantic.WithJsonSchema({"type": "string", "format": "date-time"}),
]
"""A time; on the wire in whole seconds of UTC, as metav1.Time."""
