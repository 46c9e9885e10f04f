"""Page docs/reference/node-metric.md: every field of the NodeMetric, from its pydantic model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from api_types import names
from api_types.node_metric import crd_manifest
from api_types.node_metric.types import NodeMetric
from docs.generators import markdown

Schema = Mapping[str, Any]

_INTRODUCTION: Final = f"""
`{names.NODE_METRIC_PLURAL}.{names.GROUP}`, version `{names.VERSION}`: one cluster-scoped object per node, with the name
of the node. The manager writes `spec`, the koordlet replaces `status`. Fields that Koordinator's schema lacks are
listed in [compatibility](koordinator-compatibility.md#nodemetric). Absent means "not known", never zero.

`kubectl get nodemetrics` shows these columns:
"""
_OMITTED: Final = frozenset({"apiVersion", "kind", "metadata"})


def page() -> str:
    """Return the whole page."""
    schema = NodeMetric.model_json_schema(by_alias=True)
    definitions: dict[str, Schema] = schema.get("$defs", {})
    columns = ((f"`{name}`", f"`{path}`", text) for name, _, path, text in crd_manifest.COLUMNS)
    parts = [
        markdown.head("NodeMetric", "api_types/node_metric/types.py"),
        _INTRODUCTION,
        markdown.table(("column", "field", "meaning"), columns),
        _section("Object", schema, definitions),
    ]
    parts += [_section(name, definitions[name], definitions) for name in _in_order(schema, definitions)]
    return "".join(parts)


def _in_order(schema: Schema, definitions: Mapping[str, Schema]) -> list[str]:
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


def _section(name: str, schema: Schema, definitions: Mapping[str, Schema]) -> str:
    rows = (
        (f"`{field}`", _type(each, definitions), each.get("description", ""))
        for field, each in schema["properties"].items()
        if not (name == "Object" and field in _OMITTED)
    )
    text = schema.get("description", "")
    return f"\n## {name}\n\n{text}\n" + markdown.table(("field", "type", "meaning"), rows)


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
