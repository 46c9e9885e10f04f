"""Read the quota of a namespace: the most Mid resources that its pods may hold, annotation `koordinator.sh/mid-quota`.

    {"cpu": "20", "memory": "64Gi"}          cores and bytes, as in a ResourceQuota; an absent resource has the default

A document with any other key or value is malformed as a whole. What its author wanted to permit is not known, so
it permits nothing new: a typing error must not open the quota, and it shows at once, in one namespace.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import msgspec

from api_types import names
from api_types.kubernetes import quantities

MOST_CHARACTERS: Final = 256
"""Longest annotation: two quantities of 64 characters fit."""
WANTED: Final = '{"cpu": "20", "memory": "64Gi"}: cores and bytes of 0 or more, nothing else'


class MalformedQuota(ValueError):
    """The text is no quota; the message has what was seen and what is wanted."""


class MidQuota(NamedTuple):
    """The most Mid resources; None where there is no limit."""

    cpu_millis: int | None = None
    memory_bytes: int | None = None


UNLIMITED: Final = MidQuota()
NOTHING: Final = MidQuota(0, 0)


def read(text: str, default: MidQuota) -> MidQuota:
    """Return the quota of an annotation. Raises MalformedQuota."""
    if len(text) > MOST_CHARACTERS:
        raise MalformedQuota(f"seen {len(text)} characters, want at most {MOST_CHARACTERS}")
    try:
        document = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise MalformedQuota(f"seen {text!r}, want {WANTED}") from error
    if not isinstance(document, dict):
        raise MalformedQuota(f"seen {text!r}, want {WANTED}")
    return from_document(document, default)


def from_document(document: Mapping[str, Any], default: MidQuota = UNLIMITED) -> MidQuota:
    """Return the quota of a mapping. Raises MalformedQuota."""
    unknown = sorted(document.keys() - {names.CPU, names.MEMORY})
    if unknown:
        raise MalformedQuota(f"seen the key {unknown[0]!r}, want {WANTED}")
    cpu, memory = (
        _amount(name, document[name]) if name in document else default[place]
        for place, name in enumerate((names.CPU, names.MEMORY))
    )
    return MidQuota(cpu, memory)


def _amount(name: str, quantity: Any) -> int:
    try:
        amount = quantities.resource_units(name, quantity)
    except quantities.InvalidQuantity as error:
        raise MalformedQuota(f"{name}: seen {quantity!r}, want {WANTED}") from error
    if amount < 0:
        raise MalformedQuota(f"{name}: seen {quantity!r}, want {WANTED}")
    return amount
