"""Tables of fields for pages about documents, from JSON Schemas. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from docs.generators import markdown

Schema = Mapping[str, Any]


def in_order(schema: Schema, definitions: Mapping[str, Schema]) -> list[str]:
    """Return the names of the object types, in the order in which a reader meets them."""
    found: list[str] = []
    waiting = [schema]
    while waiting:
        for name in _references(waiting.pop(0).get("properties", {})):
            if name not in found and "properties" in definitions[name]:
                found.append(name)
                waiting.append(definitions[name])
    return found


def _references(value: Any) -> Iterator[str]:
    if isinstance(value, Mapping):
        if "$ref" in value:
            yield value["$ref"].rsplit("/", 1)[-1]
        for each in value.values():
            yield from _references(each)
    elif isinstance(value, list):
        for each in value:
            yield from _references(each)


def section(
    title: str, schema: Schema, definitions: Mapping[str, Schema], omitted: frozenset[str] | None = None
) -> str:
    """Return a section with the description of an object, and a table of its fields but the omitted ones."""
    rows = (
        (f"`{field}`", _type(each, definitions), each.get("description", ""))
        for field, each in schema["properties"].items()
        if field not in (omitted or ())
    )
    return f"\n## {title}\n\n{schema.get('description', '')}\n" + markdown.table(("field", "type", "meaning"), rows)


def _type(schema: Schema, definitions: Mapping[str, Schema]) -> str:
    if "$ref" in schema:
        name = schema["$ref"].rsplit("/", 1)[-1]
        target = definitions[name]
        return f"[{name}](#{name.lower()})" if "properties" in target else _type(target, definitions)
    if "anyOf" in schema:
        choices = [each for each in schema["anyOf"] if each.get("type") != "null"]
        return " or ".join(dict.fromkeys(_type(each, definitions) for each in choices))
    if "enum" in schema:
        return ", ".join(f"`{each}`" for each in schema["enum"])
    if schema.get("type") == "array":
        return f"list of {_type(schema.get('items', {}), definitions)}"
    if schema.get("type") == "object":
        values = schema.get("additionalProperties")
        return f"map of {_type(values, definitions)}" if isinstance(values, Mapping) else "object"
    return str(schema.get("format") or schema.get("type") or "any value")
