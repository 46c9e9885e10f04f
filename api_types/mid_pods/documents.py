"""Read the parts of an object as YAML or JSON gives it, and refuse what has another shape."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


class RulesRefused(ValueError):
    """The rules cannot be applied to an object; the text names the place, what was seen and what is wanted."""


def mapping(value: object, place: str) -> Mapping[str, Any]:
    """Return a mapping, an empty one for null. Raises RulesRefused."""
    if value is None:
        return {}
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        raise RulesRefused(f"{place}: seen {_short(value)}, want a mapping")
    return value


def sequence(value: object, place: str) -> Sequence[Any]:
    """Return a sequence, an empty one for null. Raises RulesRefused."""
    if value is None:
        return ()
    if not isinstance(value, Sequence) or isinstance(value, str):
        raise RulesRefused(f"{place}: seen {_short(value)}, want a list")
    return value


def text(value: object, place: str) -> str:
    """Return a text, an empty one for null. Raises RulesRefused."""
    if value is None:
        return ""
    if not isinstance(value, str):
        raise RulesRefused(f"{place}: seen {_short(value)}, want text")
    return value


def _short(value: object) -> str:
    return repr(value)[:60]
