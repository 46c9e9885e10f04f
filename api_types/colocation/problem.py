"""Describe the problems of a configuration by key path, value seen and value wanted."""

from __future__ import annotations

import enum
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from api_types.wire_model import without_credentials

KeyPath = tuple[str | int, ...]

_LONGEST_SEEN: Final = 100  # characters of a value that are quoted; an Event's message holds 1,024


class Effect(enum.StrEnum):
    """Effect of a problem."""

    DOCUMENT_REFUSED = "the document is refused, the last good configuration stays in force"
    LAYER_IGNORED = "this layer is ignored, what lies below it stays in force"
    ADVICE = "accepted, but probably not what is meant"


@dataclass(frozen=True)
class Problem:
    """One problem. `str()` is one line for Events, logs and `koordctl config check`."""

    path: KeyPath
    actual: str
    expected: str
    effect: Effect

    def __str__(self) -> str:
        """Return the key path, the value seen and the value wanted."""
        return f"{format_path(self.path)}: seen {self.actual}, want {self.expected}"

    def with_effect(self) -> str:
        """Return the problem with its effect."""
        return f"{self} ({self.effect.value})"


def problem(path: KeyPath, value: Any, expected: str, effect: Effect = Effect.DOCUMENT_REFUSED) -> Problem:
    """Return the problem of a value as it was parsed."""
    return Problem(path, quoted(value), expected, effect)


def format_path(path: KeyPath) -> str:
    """Format a key path: ("nodeConfigs", 0, "enable") -> "nodeConfigs[0].enable"."""
    text = "".join(
        f"[{part}]" if isinstance(part, int) else f".{part if part.isprintable() else quoted(part)}" for part in path
    )
    return text.removeprefix(".") or "the document"


def quoted(value: Any) -> str:
    """Return the JSON of a value without the credentials of addresses, truncated where it is long."""
    text = without_credentials(json.dumps(value, ensure_ascii=False, default=str))
    text = text.encode(errors="replace").decode()
    return text if len(text) <= _LONGEST_SEEN else text[:_LONGEST_SEEN] + "..."


def refuses(problems: Sequence[Problem]) -> bool:
    """Return whether any of the problems is more than advice."""
    return any(problem.effect is not Effect.ADVICE for problem in problems)


def wanted_at(schema: Mapping[str, Any], path: KeyPath) -> str:
    """Describe in words what the JSON schema requires at a key path."""
    return in_words(_at(schema, path))


def keys_at(schema: Mapping[str, Any], path: KeyPath) -> list[str]:
    """Return the keys that the JSON schema has for the object at a key path."""
    return list(_at(schema, path).get("properties", {}))


def _at(schema: Mapping[str, Any], path: KeyPath) -> Mapping[str, Any]:
    definitions = schema.get("$defs", {})
    here = _resolved(schema, definitions)
    for part in path:
        below = here.get("items") if isinstance(part, int) else here.get("properties", {}).get(part)
        here = _resolved(below or here.get("additionalProperties") or {}, definitions)
    return here


def _resolved(schema: Any, definitions: Mapping[str, Any]) -> Mapping[str, Any]:
    if not isinstance(schema, Mapping):
        return {}
    if "$ref" in schema:
        return _resolved(definitions[schema["$ref"].rsplit("/", 1)[-1]], definitions)
    choices = [choice for choice in schema.get("anyOf", ()) if choice.get("type") != "null"]
    return _resolved(choices[0], definitions) if choices else schema


def in_words(schema: Mapping[str, Any]) -> str:
    """Describe type and range of a JSON schema: {"type": "integer", "minimum": 1} -> "an integer, at least 1"."""
    if "enum" in schema:
        return "one of " + ", ".join(map(str, schema["enum"]))
    kind = {
        "boolean": "true or false",
        "integer": "an integer",
        "number": "a number",
        "string": "text",
        "array": "a list",
        "object": "an object",
    }.get(str(schema.get("type")), "another value")
    bounds = [
        f"{words} {schema[bound]:.15g}"
        for bound, words in (
            ("minimum", "at least"),
            ("exclusiveMinimum", "above"),
            ("maximum", "at most"),
            ("exclusiveMaximum", "below"),
        )
        if bound in schema
    ]
    if schema.get("minItems"):
        bounds.append("not empty")
    if "maxItems" in schema:
        bounds.append(f"at most {schema['maxItems']} items")
    return f"{kind}, {' and '.join(bounds)}" if bounds else kind
