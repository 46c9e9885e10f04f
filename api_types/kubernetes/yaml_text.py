"""Read YAML whose aliases are harmless, and write objects as YAML that the parsers of Kubernetes read back unchanged.

The aliases of a few lines can expand to more values than any program can visit: each doubles the one before. The size
of a document is counted before its values are made.

The parsers of Kubernetes follow YAML 1.1 where PyYAML does not: a bare `n` or `y`, such as the key of N-sigma's N, is
a boolean to them.
Repeated values are written in full instead of as anchors, which people read with difficulty.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Any, Final

import yaml

_MOST_ALIASED_VALUES: Final = 100_000
_BOOLEANS_TO_OTHERS: Final = frozenset({"y", "Y", "n", "N"})


class _Loader(yaml.SafeLoader):
    """Reads `3e2` and `0o17` as numbers and `=` as text, as the parsers of Kubernetes do."""


_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)[eE][-+]?[0-9]+$"), list("-+.0123456789")
)
_Loader.add_implicit_resolver("tag:yaml.org,2002:int", re.compile(r"[-+]?0o[0-7_]+$"), list("-+0"))
_Loader.add_constructor("tag:yaml.org,2002:value", lambda _loader, node: str(node.value))


class _Dumper(yaml.SafeDumper):
    def ignore_aliases(self, _data: Any) -> bool:
        return True


def _text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    style = "'" if value in _BOOLEANS_TO_OTHERS else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)


_Dumper.add_representer(str, _text)


def dump(value: Any) -> str:
    """Write plain values as YAML, keys in their order."""
    return yaml.dump(value, Dumper=_Dumper, sort_keys=False, width=120, allow_unicode=True)


class TooManyAliases(yaml.YAMLError):
    """The aliases of a document expand to too many values, or contain themselves."""


def nodes(text: str) -> Iterator[yaml.Node]:
    """Yield the root node of each document. Raises yaml.YAMLError, TooManyAliases included, and RecursionError."""
    for node in yaml.compose_all(text, _Loader):
        if node is not None:
            _check(node)
            yield node


def load_all(text: str) -> Iterator[Any]:
    """Yield the values of the documents. Raises yaml.YAMLError, TooManyAliases included."""
    loader = _Loader(text)
    try:
        while loader.check_node():
            node = loader.get_node()
            if node is not None:
                _check(node)
                yield loader.construct_document(node)
    except (ValueError, RecursionError) as error:  # the first for an impossible date or number
        raise yaml.YAMLError("too many levels" if isinstance(error, RecursionError) else str(error)) from error
    finally:
        loader.dispose()


def load_items(text: str) -> Iterator[Any]:
    """Yield the objects of a manifest, those of a List one by one. Raises yaml.YAMLError, TooManyAliases included."""
    for value in load_all(text):
        is_list = isinstance(value, dict) and str(value.get("kind")).endswith("List")
        items = value.get("items") if is_list else None
        yield from items if items and isinstance(items, list) else [value]


def load(text: str) -> Any:
    """Return the value of the one document of a text, None for an empty one. Raises yaml.YAMLError."""
    values = list(load_all(text))
    if len(values) > 1:
        raise yaml.YAMLError(f"it has {len(values)} documents, want one")
    return values[0] if values else None


def _check(root: yaml.Node) -> None:
    sizes: dict[int, float] = {}
    if _size(root, sizes) - len(sizes) > _MOST_ALIASED_VALUES:
        raise TooManyAliases(
            f"its aliases (*) expand to more than {_MOST_ALIASED_VALUES} values; want the values written out"
        )


def _size(node: yaml.Node, sizes: dict[int, float]) -> float:
    """Return the number of values of a node, each counted as often as it is referred to; infinite in a circle."""
    if id(node) not in sizes:
        sizes[id(node)] = math.inf
        sizes[id(node)] = 1 + sum(_size(child, sizes) for child in _children(node))
    return sizes[id(node)]


def _children(node: yaml.Node) -> Iterator[yaml.Node]:
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            yield from (key, value)
    elif isinstance(node, yaml.SequenceNode):
        yield from node.value
