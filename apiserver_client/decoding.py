"""Decode JSON of the apiserver into the types of the callers, each object separately.

A malformed object therefore does not affect the others. The scan that separates the objects of a page costs little and
builds nothing; the objects are then decoded one by one, with pauses for the event loop between them.

The fields of `metadata.managedFields` are any JSON that an author writes, as deep as the apiserver reads: 10,000
levels. The decoder has a level of the interpreter's stack for each, also for what it skips. So a document that is too
deep is decoded again without its deepest values.
"""

from __future__ import annotations

import functools
import itertools
import operator
import re
from collections.abc import Hashable, Iterator
from typing import Any, Final, Literal, NamedTuple, TypeVar, cast

import msgspec

from apiserver_client import errors

T = TypeVar("T")
_MOST_LEVELS: Final = 100
"""Levels that are kept of a document that is too deep; those of Kubernetes have 20."""
_UNREADABLE: Final = (msgspec.DecodeError, UnicodeDecodeError)
"""Errors of the decoder: the second is of a text in a plain value that is not UTF-8."""
_STEPS: Final = bytes(1 if byte in b"{[" else 255 if byte in b"}]" else 0 for byte in range(256))
"""Change of the level with each byte, signed."""
_DEEP: Final = re.compile(rb"\x01+")


class Key(NamedTuple):
    """Name of an object among those of its type; `namespace` is empty where the type is cluster-wide."""

    namespace: str
    name: str


class EnvelopeMetadata(msgspec.Struct, rename="camel", frozen=True):
    """Identity and version of an object."""

    name: str = ""
    namespace: str = ""
    resource_version: str = ""


def version_number(version: str) -> int:
    """Return a resource version as a number, 0 where it is none. Kubernetes compares them as numbers too (KEP-5504)."""
    return int(version) if version.isdecimal() else 0


class Envelope(msgspec.Struct, frozen=True):
    """Any object, decoded for its identity only."""

    metadata: EnvelopeMetadata = EnvelopeMetadata()

    @property
    def key(self) -> Key:
        """Return the identity of the object."""
        return Key(self.metadata.namespace, self.metadata.name)


class PageMetadata(msgspec.Struct, rename="camel", frozen=True):
    """Resource version of a list, and the token of its next page (empty at the end)."""

    resource_version: str = ""
    continue_: str = msgspec.field(default="", name="continue")


class ListPage(msgspec.Struct, frozen=True):
    """A page of a list; the items are not decoded yet. Required, so that another document is no empty list."""

    metadata: PageMetadata
    items: list[msgspec.Raw] | None


class WatchEvent(msgspec.Struct, frozen=True):
    """A line of a watch; the object is not decoded yet."""

    type: Literal["ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR"]
    object: msgspec.Raw


@functools.lru_cache(maxsize=64)
def _decoder(into: Hashable) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(cast("type[Any]", into))


def _decode(data: bytes | msgspec.Raw, into: type[T]) -> T:
    decoder = _decoder(cast("Hashable", into))
    try:
        decoded: T = decoder.decode(data)
    except RecursionError:
        decoded = decoder.decode(_without_deep_values(bytes(data)))
    return decoded


def _without_deep_values(document: bytes) -> bytes:
    """Return JSON with null in place of every list and every object that is deeper than _MOST_LEVELS.

    Each step is one call for many bytes: an author can write a megabyte of brackets, for which the loop must not wait.
    """
    parts = document.replace(b"\\\\", b"__").replace(b'\\"', b"__").split(b'"')
    parts[1::2] = [b"_" * len(text) for text in parts[1::2]]  # brackets within a text are none
    steps = b"_".join(parts).translate(_STEPS)
    levels = itertools.accumulate(memoryview(steps.translate(None, b"\0")).cast("b"))
    is_deep = bytes(map(operator.lt, itertools.repeat(_MOST_LEVELS), levels))
    offsets = [*itertools.compress(range(len(document)), steps), len(document)]
    pieces, end = list[bytes](), 0
    for deep in _DEEP.finditer(is_deep):
        pieces += document[end : offsets[deep.start()]], b"null"
        end = offsets[deep.end()] + 1  # the bracket that closes the value
    return b"".join((*pieces, document[end:]))


def decode(what: object, data: bytes | msgspec.Raw, into: type[T]) -> T:
    """Decode one document. `what` names it in the error. Raises DecodeError, which names the field."""
    try:
        return _decode(data, into)
    except _UNREADABLE as error:
        raise errors.DecodeError(f"{what}: unexpected answer: {error}") from error


def identify(data: msgspec.Raw, kind: str) -> Envelope:
    """Decode the identity of an object of `kind`. Raises DecodeError."""
    return decode(f"a {kind}", data, Envelope)


def decode_object(data: msgspec.Raw, kind: str, key: Key, into: type[T]) -> T:
    """Decode an object of `kind` known as `key`. Raises DecodeError, which names object and field."""
    try:
        return _decode(data, into)
    except _UNREADABLE as error:
        name = "/".join(part for part in key if part)
        raise errors.DecodeError(f"{kind} {name}: unexpected content: {error}") from error


class LineSplitter:
    """Splitter of chunks into whole lines. The rest is kept as pieces, so that a large object is joined once."""

    def __init__(self) -> None:
        self._rest: list[bytes] = []

    def lines(self, chunk: bytes) -> Iterator[bytes]:
        """Yield the lines that `chunk` completes, without line ends and without empty lines."""
        start = 0
        while (end := chunk.find(b"\n", start)) >= 0:
            line = chunk[start:end]
            if self._rest:
                line = b"".join((*self._rest, line))
                self._rest.clear()
            start = end + 1
            if line.strip():
                yield line
        if start < len(chunk):
            self._rest.append(chunk[start:])
