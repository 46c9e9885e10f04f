"""Input files of the commands, `-` for standard input: a colocation-config document, a Node."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import msgspec
import yaml

from api_types import names
from api_types.kubernetes import pods, yaml_text

_BROKEN: Final = (yaml.YAMLError, ValueError, RecursionError)
"""Exceptions of PyYAML: the second for an impossible date, the third for too deep nesting."""


class Unusable(Exception):
    """A file cannot be read, or has other content."""


def read(file: str) -> str:
    """Read a file. Raises Unusable."""
    try:
        return sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise Unusable(str(error)) from error


def document_in(text: str) -> str:
    """Take the document out of a ConfigMap manifest; any other text is the document itself. Raises Unusable."""
    try:
        manifests = list(_objects(text))
    except yaml_text.TooManyAliases as error:
        raise Unusable(str(error)) from error
    except _BROKEN:
        return text  # broken as JSON too; the reader of the document reports the place
    for manifest in manifests:
        data = manifest.get("data")
        if isinstance(data, dict) and names.COLOCATION_CONFIG_KEY in data:
            return str(data[names.COLOCATION_CONFIG_KEY])
    if any("kind" in manifest or "data" in manifest for manifest in manifests):
        raise Unusable(f"found no ConfigMap with the key data.{names.COLOCATION_CONFIG_KEY}")
    return text


def node_in(text: str, name: str | None) -> pods.Node:
    """Return the Node of a manifest or a list; with a name, the Node of this name. Raises Unusable."""
    try:
        found = [msgspec.convert(each, type=pods.Node) for each in _objects(text) if each.get("kind") == "Node"]
    except (*_BROKEN, msgspec.ValidationError) as error:
        raise Unusable(f"not a manifest of a Node: {error}") from error
    wanted = [node for node in found if name in (None, node.metadata.name)]
    if len(wanted) != 1:
        there = ", ".join(node.metadata.name for node in found) or "none"
        raise Unusable(
            f"found the Nodes {there}, want one" + (f" with the name {name}" if name else "; --node selects it")
        )
    return wanted[0]


def _objects(text: str) -> Iterator[dict[str, Any]]:
    """Yield the objects of a YAML or JSON text, those of a List one by one. Raises the exceptions of `_BROKEN`."""
    for document in yaml_text.load_all(text):
        if isinstance(document, dict):
            items = document.get("items") if str(document.get("kind", "")).endswith("List") else None
            yield from (each for each in (items or [document]) if isinstance(each, dict))
