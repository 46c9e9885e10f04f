"""The schema of `colocationConfig` in values.schema.json, from the models by which the manager validates.

Stricter than the manager in one point: the case of a key counts. Errors of helm are clear only without references and
choices, so both are resolved: a key may also be null, which sets nothing.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from api_types.colocation import controller_config

_KEY: Final = '    "colocationConfig": '
_RANGES: Final = ("minimum", "maximum", "exclusiveMinimum", "minLength", "maxLength", "minItems", "maxItems")
_COPIED: Final = ("type", "enum", "pattern", *_RANGES)
_WIDTH: Final = 90  # with the key before it and the comma after it, about 120
_COMMENT: Final = "Generated from api_types/colocation by `make update`."


def inserted(schema_text: str) -> str:
    """Return the text of values.schema.json with the property colocationConfig generated again."""
    before, marker, rest = schema_text.partition(f"\n{_KEY}")
    if not marker:
        raise ValueError(f"values.schema.json: want a property {_KEY.strip()} with four spaces before it")
    _, end = json.JSONDecoder().raw_decode(rest)
    return before + marker + _text(document(), 4) + rest[end:]


def _text(value: Any, indent: int) -> str:
    """Return JSON with each object on one line where it fits."""
    line = json.dumps(value)
    if not isinstance(value, dict) or len(line) + indent <= _WIDTH:
        return line
    members = (f"{' ' * (indent + 2)}{json.dumps(key)}: {_text(member, indent + 2)}" for key, member in value.items())
    return "{\n" + ",\n".join(members) + f"\n{' ' * indent}}}"


def document() -> dict[str, Any]:
    """Return the schema of the whole document."""
    schema = controller_config.ColocationConfig.model_json_schema()
    definitions = schema.get("$defs", {})
    return {
        "$comment": _COMMENT,
        **_plain(schema, definitions, "Document colocation-config at the first installation."),
    }


def _plain(schema: Mapping[str, Any], definitions: Mapping[str, Any], description: str = "") -> dict[str, Any]:
    target, may_be_null = _resolved(schema, definitions)
    description = description or schema.get("description", "") or target.get("description", "")
    result: dict[str, Any] = {"description": description} if description else {}
    result |= {key: target[key] for key in _COPIED if key in target}
    if "properties" in target:
        result["additionalProperties"] = False
        result["properties"] = {key: _plain(nested, definitions) for key, nested in target["properties"].items()}
        result["properties"] |= {
            alias: {**result["properties"][key], "description": f"Alias of {key}."}
            for alias, key in controller_config.ALIASES.items()
            if key in target["properties"]
        }
        result |= {"required": target["required"]} if "required" in target else {}
    elif isinstance(target.get("additionalProperties"), Mapping):
        result["additionalProperties"] = _plain(target["additionalProperties"], definitions)
    if "items" in target:
        result["items"] = _plain(target["items"], definitions)
    return _nullable(result) if may_be_null else result


def _resolved(schema: Mapping[str, Any], definitions: Mapping[str, Any]) -> tuple[Mapping[str, Any], bool]:
    """Return the one choice that is not null, without references, and whether null is the other."""
    choices = schema.get("anyOf", [schema])
    chosen = [choice for choice in choices if choice.get("type") != "null"]
    if len(chosen) != 1:
        raise ValueError(f"want one type beside null, this key has {len(chosen)}: {schema}")
    (resolved,) = chosen
    while "$ref" in resolved:
        resolved = definitions[resolved["$ref"].rsplit("/", 1)[-1]]
    return resolved, len(choices) > 1


def _nullable(schema: dict[str, Any]) -> dict[str, Any]:
    if "enum" in schema:
        schema["enum"] = [*schema["enum"], None]
    return {**schema, "type": [schema["type"], "null"]}
