"""Decode JSON of the apiserver into the types of the callers, each object separately.

A malformed object therefore does not affect the others. The scan that separates the objects of a page costs little and
builds nothing; the objects are then decoded one by one, with pauses for the event loop between them.

The fields of `metadata.managedFields` are any JSON that an author writes, as deep as the apiserver reads: 10,000
levels. The decoder has a level of the interpreter's stack for each, also for what it skips. So a document that is too
deep is decoded again without its deepest values. They are found by one regular expression where the apiserver has
written them, and by a scan of every bracket otherwise, which takes ten times longer: one pod must not block the loop.
"""

from __future__ import annotations

import contextlib
import functools
import re
from collections.abc import Hashable, Iterator
from typing import Any, Final, Literal, NamedTuple, TypeVar, cast

import msgspec

from apiserver_client import errors, list_splitter

T = TypeVar("T")
_MOST_LEVELS: Final = 100
"""Levels that are kept of a document that is too deep; those of Kubernetes have 20."""
_UNREADABLE: Final = (msgspec.DecodeError, UnicodeDecodeError)
"""Errors of the decoder: the second is of a text in a plain value that is not UTF-8."""
_BRACKET: Final = re.compile(list_splitter.TEXT + rb"|[\[\]{}]", re.DOTALL)
"""A bracket, or a whole text, which may contain some."""
_FIELDS: Final = re.compile(
    rb'"fieldsV1":(?<=[{,]"fieldsV1":)(\{[^"\[\],]*+(?:(?:%s|,(?!\{))[^"\[\],]*+)*+)(?=[\],])' % list_splitter.TEXT,
    re.DOTALL,
)
"""The fields of an entry of `managedFields`, up to its end. They contain no list, so a list's sign ends the entry."""


class Key(NamedTuple):
    """Name of an object among those of its type; `namespace` is empty where the type is cluster-wide."""

    namespace: str
    name: str


class Metadata(msgspec.Struct, rename="camel", frozen=True):
    """Identity and version of an object."""

    name: str = ""
    namespace: str = ""
    resource_version: str = ""


class Envelope(msgspec.Struct, frozen=True):
    """Any object, decoded for its identity only."""

    metadata: Metadata = Metadata()

    @property
    def key(self) -> Key:
        """Return the identity of the object."""
        return Key(self.metadata.namespace, self.metadata.name)


class PageMetadata(msgspec.Struct, rename="camel", frozen=True):
    """Resource version of a list, and the token of its next page (empty at the end)."""

    resource_version: str = ""
    continue_: str = msgspec.field(default="", name="continue")


class Page(msgspec.Struct, frozen=True):
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
        decoded = _decode_deep(bytes(data), decoder)
    return decoded


def _decode_deep(document: bytes, decoder: msgspec.json.Decoder[Any]) -> Any:
    with contextlib.suppress(RecursionError, msgspec.DecodeError):
        return decoder.decode(_FIELDS.sub(_shallow_fields, document))
    return decoder.decode(_without_deep_values(document))


def _shallow_fields(found: re.Match[bytes]) -> bytes:
    """Return the fields of an entry of `managedFields` as they are; null for fields that are too deep.

    Fields that the expression has not found correctly leave brackets without partners: the decoder refuses the result.
    """
    with contextlib.suppress(msgspec.DecodeError):
        try:
            _decoder(msgspec.Raw).decode(b"{" + found.group())
        except RecursionError:
            return b'"fieldsV1":null}'
    return found.group()


def _without_deep_values(document: bytes) -> bytes:
    """Return JSON with null in place of every list and every object that is deeper than _MOST_LEVELS."""
    kept, level, end = [], 0, 0
    for found in _BRACKET.finditer(document):
        bracket = found.group()
        if bracket in (b"{", b"["):
            level += 1
            if level == _MOST_LEVELS + 1:
                kept.append(document[end : found.start()])
                end = len(document)  # of a document that is cut off, nothing more
        elif bracket in (b"}", b"]"):
            level -= 1
            if level == _MOST_LEVELS:
                kept.append(b"null")
                end = found.end()
    return b"".join((*kept, document[end:]))


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
