"""Base of the pydantic models that travel through the apiserver, and the field types they share."""

from __future__ import annotations

from typing import Annotated, Any, Final

import pydantic

from api_types.kubernetes import quantities, times

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


Timestamp = Annotated[
    pydantic.AwareDatetime,
    pydantic.PlainSerializer(times.format_rfc3339, return_type=str, when_used="json"),
    pydantic.WithJsonSchema({"type": "string", "format": "date-time"}),
]
"""A moment, in whole seconds of UTC on the wire as metav1.Time is."""
