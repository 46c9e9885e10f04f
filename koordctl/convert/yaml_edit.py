"""Change values in YAML text and keep every other character: comments, order, quotes, indentation, other documents.

The text is edited at the positions of its nodes and parsed again. If that does not give the wanted objects, it is
refused.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import yaml

from api_types.kubernetes import yaml_text
from api_types.mid_pods.resources import RulesRefused

_STEP: Final = 2
_PLAIN: Final = re.compile(r"[A-Za-z][A-Za-z0-9./-]*|[0-9]+(\.[0-9]+)?([numkMGTP]|[KMGTPE]i)")
"""Texts that every YAML parser reads as text without quotes; `_NOT_TEXT` are the exceptions."""
_NOT_TEXT: Final = frozenset({"y", "n", "yes", "no", "on", "off", "true", "false", "null"})


class YamlDocument(NamedTuple):
    """One document of a text."""

    node: yaml.Node
    value: Any


class _Edit(NamedTuple):
    start: int
    end: int
    text: str


def documents(text: str) -> list[YamlDocument]:
    """Parse a text. Raises RulesRefused where it is not YAML."""
    try:
        nodes = list(yaml_text.nodes(text))
        values = [value for value in yaml_text.load_all(text) if value is not None]
        present = [node for node in nodes if node.tag != "tag:yaml.org,2002:null"]
    except (yaml.YAMLError, RecursionError) as error:
        first = " ".join(str(error).split())
        raise RulesRefused(f"cannot be read as YAML: {first}; want manifests, templates rendered first") from None
    return [YamlDocument(node, value) for node, value in zip(present, values, strict=True)]


def edited(text: str, changed: Mapping[int, Sequence[Any]]) -> str:
    """Return the text with some documents changed, by their number: one object in place, or several instead of it.

    Raises RulesRefused where the text cannot be edited.
    """
    expected: list[Any] = []
    edits: list[_Edit] = []
    for number, document in enumerate(documents(text)):
        after = changed.get(number, [document.value])
        expected += after
        if len(after) == 1:
            writer = _Writer(text, document.node)
            edits += writer.edits(document.node, document.value, after[0], "")
        else:
            whole = "---\n".join(yaml_text.dump(value) for value in after).rstrip("\n")
            edits.append(_Edit(document.node.start_mark.index, _end(document.node), whole))
    for edit in sorted(edits, reverse=True):
        text = text[: edit.start] + edit.text + text[edit.end :]
    if [document.value for document in documents(text)] != expected:
        raise RulesRefused("its text cannot be edited without a loss; want plain YAML, one key on each line")
    return text


class _Writer:
    """Edits of one document."""

    def __init__(self, text: str, root: yaml.Node) -> None:
        self._text = text
        self._newline = "\r\n" if "\r\n" in text else "\n"
        self._shared = {identity for identity, count in Counter(map(id, _walk(root, set()))).items() if count > 1}
        self._is_json = text[root.start_mark.index : root.start_mark.index + 1] == "{" and '"' in text

    def edits(self, node: yaml.Node, before: Any, after: Any, path: str) -> Iterator[_Edit]:
        """Yield the edits that turn the value of a node into another one. Raises RulesRefused."""
        if before == after and type(before) is type(after):
            return
        if id(node) in self._shared:
            raise RulesRefused(
                f"{path}: shares an anchor (&) with another place; want the values written in both places"
            )
        if isinstance(node, yaml.MappingNode) and isinstance(before, dict) and isinstance(after, dict):
            yield from self._mapping(node, before, after, path)
        elif isinstance(node, yaml.SequenceNode) and isinstance(after, list) and 0 < len(before) <= len(after):
            added = len(after) - len(before)
            if added:
                yield self._inserted(node, after[:added])
            for index, item in enumerate(node.value):
                yield from self.edits(item, before[index], after[added + index], f"{path}[{index}]")
        else:
            start, end = node.start_mark.index, node.end_mark.index
            yield _Edit(start, end, (" " if start == end else "") + self._flow(after))

    def _mapping(
        self, node: yaml.MappingNode, before: dict[str, Any], after: dict[str, Any], path: str
    ) -> Iterator[_Edit]:
        values = {key.value: value for key, value in node.value}
        if len(values) < len(node.value):
            raise RulesRefused(f"{path or 'the object'}: a key occurs twice; want it once")
        if before.keys() - values.keys():
            raise RulesRefused(f"{path or 'the object'}: has a merge key (<<); want its values written out")
        added = {key: value for key, value in after.items() if key not in before}
        for key, value in before.items():
            yield from self.edits(values[key], value, after[key], f"{path}.{key}" if path else key)
        if added:
            yield self._added(node, added)

    def _added(self, node: yaml.MappingNode, added: Mapping[str, Any]) -> _Edit:
        if node.flow_style:
            inner = self._flow(added)[1:-1]
            if not node.value:
                return _Edit(node.start_mark.index + 1, node.start_mark.index + 1, inner)
            end = node.value[-1][1].end_mark.index
            return _Edit(end, end, f", {inner}")
        column = node.start_mark.column
        lines = [" " * column + line for line in self._block(added)]
        simple = [value for key, value in node.value if self._is_simple(key, value)]
        if simple:
            end = self._end_of_line(simple[-1].end_mark.index)
            return _Edit(end, end, "".join(self._newline + line for line in lines))
        start = node.value[0][0].start_mark.index
        return _Edit(start, start, (self._newline.join(lines) + self._newline + " " * column).lstrip(" "))

    def _inserted(self, node: yaml.SequenceNode, items: Sequence[Any]) -> _Edit:
        """Return the edit that puts items before the first one of a list."""
        start = node.value[0].start_mark.index if node.flow_style else node.start_mark.index
        begin, end = ("", ", ") if node.flow_style else ("- ", self._newline + " " * node.start_mark.column)
        return _Edit(start, start, "".join(f"{begin}{self._flow(item)}{end}" for item in items))

    def _is_simple(self, key: yaml.Node, value: yaml.Node) -> bool:
        """Return whether an entry is on one line, so that another one may follow on the next."""
        is_block = isinstance(value, yaml.ScalarNode) and value.style in ("|", ">")
        is_flow = isinstance(value, yaml.ScalarNode) or bool(value.flow_style)  # type: ignore[attr-defined]
        return is_flow and not is_block and key.start_mark.line == value.end_mark.line

    def _end_of_line(self, index: int) -> int:
        end = self._text.find("\n", index)
        end = len(self._text) if end < 0 else end
        return end - 1 if self._text[end - 1 : end] == "\r" else end

    def _block(self, value: Mapping[str, Any]) -> Iterator[str]:
        for key, item in value.items():
            if isinstance(item, dict) and item:
                yield f"{self._scalar(key)}:"
                yield from (" " * _STEP + line for line in self._block(item))
            else:
                yield f"{self._scalar(key)}: {self._flow(item)}"

    def _flow(self, value: Any) -> str:
        if isinstance(value, Mapping):
            return "{" + ", ".join(f"{self._scalar(key)}: {self._flow(item)}" for key, item in value.items()) + "}"
        return self._scalar(value)

    def _scalar(self, value: Any) -> str:
        is_plain = isinstance(value, str) and _PLAIN.fullmatch(value) and value.lower() not in _NOT_TEXT
        return value if is_plain and not self._is_json else json.dumps(value, ensure_ascii=False)


def _walk(node: yaml.Node, visited: set[int]) -> Iterator[yaml.Node]:
    """Yield each node as often as it is referred to, and its children once."""
    yield node
    if id(node) in visited:
        return
    visited.add(id(node))
    if isinstance(node, yaml.MappingNode):
        for _, value in node.value:
            yield from _walk(value, visited)
    elif isinstance(node, yaml.SequenceNode):
        for item in node.value:
            yield from _walk(item, visited)


def _end(node: yaml.Node) -> int:
    """Return the position after the last character of a node; its end mark is after the comments that follow it."""
    if isinstance(node, (yaml.MappingNode, yaml.SequenceNode)) and not node.flow_style and node.value:
        last = node.value[-1]
        return _end(last[1] if isinstance(last, tuple) else last)
    return int(node.end_mark.index)
