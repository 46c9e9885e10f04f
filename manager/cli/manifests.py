"""Files people give to a command, `-` being standard input: a colocation-config document, a Node."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import msgspec
import yaml

from api_types import names
from api_types.kubernetes import pods

_BROKEN: Final = (yaml.YAMLError, ValueError, RecursionError)
"""What PyYAML raises: the second for a date that is none, the third for what is nested too deeply."""


class Unusable(Exception):
    """A file cannot be read, or holds something else."""


def read(file: str) -> str:
    """Text of a file. Raises Unusable."""
    try:
        return sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise Unusable(str(error)) from error


def document_in(text: str) -> str:
    """Take the document out of a ConfigMap manifest; any other text is the document itself. Raises Unusable."""
    try:
        manifests = list(_objects(text))
    except _BROKEN:
        return text  # broken as JSON too, and the reader of the document says where
    for manifest in manifests:
        data = manifest.get("data")
        if isinstance(data, dict) and names.COLOCATION_CONFIG_KEY in data:
            return str(data[names.COLOCATION_CONFIG_KEY])
    if any("kind" in manifest or "data" in manifest for manifest in manifests):
        raise Unusable(f"found no ConfigMap with the key data.{names.COLOCATION_CONFIG_KEY}")
    return text


def node_in(text: str, name: str | None) -> pods.Node:
    """The Node in a manifest or a list of them; with a name, the one that is called so. Raises Unusable."""
    try:
        found = [msgspec.convert(each, type=pods.Node) for each in _objects(text) if each.get("kind") == "Node"]
    except (*_BROKEN, msgspec.ValidationError) as error:
        raise Unusable(f"this is no manifest of a Node: {error}") from error
    wanted = [node for node in found if name in (None, node.metadata.name)]
    if len(wanted) != 1:
        there = ", ".join(node.metadata.name for node in found) or "none"
        raise Unusable(f"found the Nodes {there}, want one" + (f" called {name}" if name else "; --node names it"))
    return wanted[0]


def _objects(text: str) -> Iterator[dict[str, Any]]:
    """Objects of a YAML or JSON text, those of a List one by one. Raises what `_BROKEN` names."""
    for document in yaml.safe_load_all(text):
        if isinstance(document, dict):
            items = document.get("items") if str(document.get("kind", "")).endswith("List") else None
            yield from (each for each in (items or [document]) if isinstance(each, dict))
