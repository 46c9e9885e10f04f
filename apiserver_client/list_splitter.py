"""Split the JSON of a list into its objects while it arrives: memory holds the largest object, whatever the list has.

An author may write objects of more than a megabyte, as many as a quota allows, and the apiserver ignores `limit` where
it answers from its watch cache. The end of an object is found by the decoder, which scans ten times faster than a
regular expression: what follows a value is an error, and its text states where. Where the decoder cannot help (a value
deeper than the interpreter's stack, another text) brackets are counted.
"""

from __future__ import annotations

import contextlib
import itertools
import operator
import re
from collections.abc import Iterator
from typing import Final

import msgspec

_SPACE: Final = rb"[ \t\r\n]*+"
TEXT: Final = rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"'
"""A text of JSON with its quotes; compile it with re.DOTALL. It never goes back, so its time is linear."""
_FLAT: Final = rb'[^"{}\[\]]++|' + TEXT
_LEAF: Final = rb"[{\[](?:" + _FLAT + rb")*+[}\]]"
_VALUE: Final = TEXT + rb'|[^"{}\[\],]++|[{\[](?:' + _FLAT + rb"|" + _LEAF + rb")*+[}\]]"
_FIELD: Final = rb'(?!"items")' + TEXT + _SPACE + rb":" + _SPACE + rb"(?:" + _VALUE + rb")" + _SPACE + rb"," + _SPACE
_HEAD: Final = re.compile(
    rb'%s\{%s(?:%s)*+"items"%s:%s\[(?=%s\{)' % (_SPACE, _SPACE, _FIELD, _SPACE, _SPACE, _SPACE), re.DOTALL
)
"""A list as far as the bracket before its first object."""
_AFTER: Final = re.compile(_SPACE + rb"(?=[^ \t\r\n])")
_FOLLOWED: Final = re.compile(r"trailing characters \(byte (\d+)\)")
_CUT_OFF: Final = "Input data was truncated"
_NO_BRACKETS: Final = bytes(sorted({*range(256)} - {*b"{}[]"}))
_STEPS: Final = bytes.maketrans(b"{[}]", b"\x01\x01\xff\xff")
"""Signed change of the level with each bracket."""
_MOST_AT_ONCE: Final = 2**16
"""Bytes of which brackets are counted first; four times as many where the value does not end in them."""
_UP_TO_BRACKET: Final = rb'(?:[^"{}\[\]]*+(?:"[^"]*+"[^"{}\[\]]*+)*+[{}\[\]]){%d}+'
_SCANNER: Final = msgspec.json.Decoder(msgspec.Raw)


class ListSplitter:
    """Splitter of one list, or one page. A list of another form than the apiserver's stays whole, as its `rest`."""

    def __init__(self) -> None:
        self._head = b""
        """The list up to its first object, once that has arrived."""
        self._ended = False
        """Whether the last object has been found."""
        self._pieces: list[bytes] = []
        """Bytes that belong to no object yet, joined when their size has doubled: a byte is scanned about twice."""
        self._size = 0
        self._enough = 0

    def items(self, piece: bytes) -> Iterator[msgspec.Raw]:
        """Yield the objects that `piece` completes, not decoded. An empty one is the end of the list."""
        self._pieces.append(piece)
        self._size += len(piece)
        if self._ended or (piece and self._size < self._enough):
            return
        data, at = b"".join(self._pieces), 0
        if not self._head and (head := _HEAD.match(data)):
            self._head, at = head.group(), head.end()
        while self._head and (end := _end(data, at)) is not None:
            yield msgspec.Raw(data[at:end])
            if data[end] != ord(","):
                self._ended, at = True, end
                break
            at = end + 1
        self._pieces = [data[at:]]
        self._size = len(data) - at
        self._enough = 2 * self._size

    def rest(self) -> bytes:
        """Return the list without the objects that were yielded; incomplete where the list is incomplete."""
        return b"".join((self._head, *self._pieces))


def _end(data: bytes, at: int) -> int | None:
    """Return the index of what follows the value at `at` and white space; None where that has not arrived."""
    try:
        _SCANNER.decode(memoryview(data)[at:])
    except msgspec.DecodeError as error:
        text = str(error)
        if followed := _FOLLOWED.search(text):
            return at + int(followed[1]) - 1
        return None if text == _CUT_OFF else _end_by_brackets(data, at)
    except RecursionError:
        return _end_by_brackets(data, at)
    return None


def _end_by_brackets(data: bytes, at: int) -> int | None:
    """Return what `_end` does, for a list or an object of any depth, malformed ones included."""
    opening = _AFTER.match(data, at)
    if opening is None or data[opening.end()] not in b"{[":
        return None
    brackets, plain = _brackets(data, opening.end())
    if not brackets:
        return None
    whole = re.match(_UP_TO_BRACKET % brackets, plain)
    assert whole is not None
    after = _AFTER.match(data, opening.end() + whole.end())
    return None if after is None else after.end()


def _brackets(data: bytes, at: int) -> tuple[int, bytes]:
    """Return the number of brackets of the value at `at`, whose first byte is one, and the bytes with them.

    In these bytes quotes only limit texts. Zero where the value is incomplete. Each step is one call for many brackets:
    an author can write a megabyte of them, for which the loop must not wait.
    """
    size = _MOST_AT_ONCE
    while True:
        plain = data[at : at + size].replace(b"\\\\", b"__").replace(b'\\"', b"__")
        steps = b"".join(plain.split(b'"')[::2]).translate(_STEPS, delete=_NO_BRACKETS)
        with contextlib.suppress(ValueError):
            return operator.indexOf(itertools.accumulate(memoryview(steps).cast("b")), 0) + 1, plain
        if at + size >= len(data):
            return 0, b""
        size *= 4
