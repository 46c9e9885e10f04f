"""Page docs/reference/chart-values.md: every value of the chart, from its comments, its defaults and its schema."""

from __future__ import annotations

import json
import pathlib
import re
import textwrap
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

import yaml

from docs.generators import markdown

CHART: Final = pathlib.Path(__file__).parents[2] / "charts" / "koord-suite"
_KEY: Final = re.compile(r"^(?P<indent> *)(?P<key>[A-Za-z][\w]*):")
_END_OF_SENTENCE: Final = re.compile(r"(?<=\.) (?=[A-Z`])")
_INTRODUCTION: Final = """
Values of the chart `charts/koord-suite`, for `helm install --set NAME=VALUE` or a file of `--values`. The schema in the
chart refuses unknown names and wrong types. Each row is the first sentence of the comment in `values.yaml`, which
`helm show values` prints whole.
"""


class Value(NamedTuple):
    """One documented value."""

    path: tuple[str, ...]
    comment: str


def page() -> str:
    """Return the whole page."""
    head = markdown.head("Chart values", "charts/koord-suite/values.yaml and its schema")
    text = (CHART / "values.yaml").read_text(encoding="utf-8")
    schema = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))
    defaults = yaml.safe_load(text)
    values = list(documented(text))
    groups = {value.path[:-1] for value in values}
    parts = [head, _INTRODUCTION]
    single = [value for value in values if len(value.path) == 1 and value.path not in groups]
    parts += ["\n## General\n", _table(single, groups, defaults, schema)]
    comments = {value.path: value.comment for value in values}
    for key in dict.fromkeys(value.path[0] for value in values):
        members = [value for value in values if value.path[0] == key and len(value.path) > 1]
        if members:
            comment = comments.get((key,), "")
            parts += [
                f"\n## {key}\n",
                f"\n{textwrap.fill(comment, 118, break_on_hyphens=False)}\n" if comment else "",
                _table(members, groups, defaults, schema),
            ]
    return "".join(parts)


def documented(text: str) -> Iterator[Value]:
    """Return every key that has a comment directly above it."""
    path: list[tuple[int, str]] = []
    comment: list[str] = []
    for line in text.splitlines():
        if line.strip().startswith("#"):
            comment.append(line.strip().removeprefix("#").strip())
            continue
        if key := _KEY.match(line):
            indent = len(key["indent"])
            path = [*((depth, name) for depth, name in path if depth < indent), (indent, key["key"])]
            if comment:
                yield Value(tuple(name for _, name in path), " ".join(comment))
        comment = []


def _table(
    values: list[Value], groups: set[tuple[str, ...]], defaults: Mapping[str, Any], schema: Mapping[str, Any]
) -> str:
    rows = (
        (
            f"`{'.'.join(value.path)}`",
            _type(_at_schema(schema, value.path)),
            "" if value.path in groups else f"`{json.dumps(_at(defaults, value.path))}`",
            _END_OF_SENTENCE.split(value.comment, maxsplit=1)[0],
        )
        for value in values
    )
    return markdown.table(("value", "type", "default", "meaning"), rows)


def _at(values: Any, path: tuple[str, ...]) -> Any:
    for key in path:
        values = values[key]
    return values


def _at_schema(schema: Mapping[str, Any], path: tuple[str, ...]) -> Mapping[str, Any]:
    at: Mapping[str, Any] = schema
    for key in path:
        at = _resolved(schema, at).get("properties", {}).get(key, {})
    return _resolved(schema, at)


def _resolved(schema: Mapping[str, Any], at: Mapping[str, Any]) -> Mapping[str, Any]:
    if "$ref" not in at:
        return at
    found: Any = schema
    for key in at["$ref"].removeprefix("#/").split("/"):
        found = found[key]
    return {**_resolved(schema, found), **{key: value for key, value in at.items() if key != "$ref"}}


def _type(schema: Mapping[str, Any]) -> str:
    if "enum" in schema:
        return ", ".join(f"`{json.dumps(each) if not isinstance(each, str) else each}`" for each in schema["enum"])
    found = schema.get("type", "")
    return " or ".join(found) if isinstance(found, list) else str(found)
