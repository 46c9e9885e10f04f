"""Frames between the plugin KoordSuite (Go, `plugin/socket/frames.go`) and this process. Pure.

A frame is a header and a payload, all integers little-endian. A text is its length in bytes (u16), then UTF-8:

    header    u32 length of the payload, u8 kind, u8 0, u16 0, u32 number of a question, repeated in its answer

    HELLO     u32 MAGIC, u16 version, text profile, text minor version of kube-scheduler
    POD       JSON: the fields of a Pod that are read. A pending pod of the profile, or any pod with a node
    GONE      text uid, text namespace/name
    SYNCED    every pod and every reservation was repeated
    ASK       text uid
    CHECK     text uid, u32 row, texts uids of the pods that a dry run removes from the node of the row
    RESERVE   text uid, text node               UNRESERVE   text uid
    REFUSED   text uid, u32 generation, then one bit a row: the rows that this plugin alone refused

    WELCOME   u16 version, then for each reason code from 1 on: u8 1 if victims can end it, text
    CLOSING   text, why the connection is closed
    READY     u8 1 if questions are answered from here on, 0 if not
    TABLE     u32 generation, then for each changed row: u32 row, text node; empty: no node has this row
    ANSWER    u32 generation, u32 rows, i32 row whose rejection victims can end (-1: none), u8 code of a node without
              a row, u8 flags; codes, a byte a row, if CODES; scores, a byte a row, if SCORES; then for each code with
              another text than in WELCOME: u8 code, text
    CODE      u8 code of the row
    WAKE      texts uids: these pods pass now

Code 0 passes. A row without a node has code 0 and score 0; without CODES all rows pass, without SCORES all have 0.
TABLE precedes the first ANSWER of its generation. A side that meets what it does not know closes the connection; the
plugin connects again, and begins with HELLO, every POD, the reservations and SYNCED. Frames about pods whose order
matters (ASK, RESERVE ...) overtake PODs that wait to be shown, but never the one of their own pod.
"""

from __future__ import annotations

import enum
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

VERSION: Final = 1
MAGIC: Final = 0x4B4F4F52
MOST_BYTES: Final = 1 << 20
"""Longest payload. The fields of a Pod that are read take less than a third of what the API server stores of it."""
CODES, SCORES = 1, 2

_HEADER: Final = struct.Struct("<IBBHI")
_ANSWER: Final = struct.Struct("<IIiBB")
_U8, _U16, _U32 = struct.Struct("<B"), struct.Struct("<H"), struct.Struct("<I")
_TABLE_BYTES: Final = MOST_BYTES // 4
_MOST_WOKEN: Final = 1024

Bytes = npt.NDArray[np.uint8]


class Kind(enum.IntEnum):
    """Kinds of frames; from 32 on those of this process."""

    HELLO = 1
    POD = 2
    GONE = 3
    SYNCED = 4
    ASK = 5
    CHECK = 6
    RESERVE = 7
    UNRESERVE = 8
    REFUSED = 9
    WELCOME = 32
    CLOSING = 33
    READY = 34
    TABLE = 35
    ANSWER = 36
    CODE = 37
    WAKE = 38


_BY_NUMBER: Final = {int(kind): kind for kind in Kind}


class BadFrame(ValueError):
    """Bytes that are no frame of this protocol; the connection cannot be used any more."""


class Frame(NamedTuple):
    """One received frame."""

    kind: Kind
    number: int
    payload: bytes


class FrameBuffer:
    """Bytes of a connection, until they are frames."""

    def __init__(self) -> None:
        self._bytes = bytearray()

    def take(self, received: bytes) -> Iterator[Frame]:
        """Yield the frames that `received` completes. Raises BadFrame."""
        held = self._bytes
        held += received
        at = 0
        try:
            while len(held) - at >= _HEADER.size:
                length, number_of_kind, zero, zeros, number = _HEADER.unpack_from(held, at)
                kind = _BY_NUMBER.get(number_of_kind)
                if kind is None or zero or zeros or length > MOST_BYTES:
                    raise BadFrame(f"header with kind {number_of_kind} and length {length}, want at most {MOST_BYTES}")
                end = at + _HEADER.size + length
                if len(held) < end:
                    break
                payload = bytes(held[at + _HEADER.size : end])
                at = end
                yield Frame(kind, number, payload)
        finally:
            del held[:at]


class Reader:
    """The fields of one payload, in their order; each method raises BadFrame beyond its end."""

    def __init__(self, payload: bytes) -> None:
        self._payload = payload
        self._at = 0

    def u8(self) -> int:
        """Return the next byte."""
        return self._integer(_U8)

    def u16(self) -> int:
        """Return the next 2 bytes as an integer."""
        return self._integer(_U16)

    def u32(self) -> int:
        """Return the next 4 bytes as an integer."""
        return self._integer(_U32)

    def text(self) -> str:
        """Return the next text."""
        length = self.u16()
        try:
            return self._take(length).decode()
        except UnicodeDecodeError as error:
            raise BadFrame(f"a text that is not UTF-8: {error}") from error

    def texts(self) -> list[str]:
        """Return all texts up to the end."""
        result = []
        while not self.is_at_end():
            result.append(self.text())
        return result

    def rest(self) -> bytes:
        """Return all bytes up to the end."""
        return self._take(len(self._payload) - self._at)

    def is_at_end(self) -> bool:
        """Return whether no byte is left."""
        return self._at == len(self._payload)

    def end(self) -> None:
        """Raise BadFrame if a byte is left."""
        if not self.is_at_end():
            raise BadFrame(f"{len(self._payload) - self._at} bytes behind the last field")

    def _take(self, length: int) -> bytes:
        taken = self._payload[self._at : self._at + length]
        if len(taken) < length:
            raise BadFrame(f"a payload of {len(self._payload)} bytes ends within a field")
        self._at += length
        return taken

    def _integer(self, form: struct.Struct) -> int:
        (value,) = form.unpack(self._take(form.size))
        return int(value)


class Hello(NamedTuple):
    """First frame of a connection."""

    profile: str
    minor: str


class Answer(NamedTuple):
    """Codes and scores by row; None: all are 0."""

    generation: int
    rows: int
    codes: Bytes | None
    scores: Bytes | None
    unknown_code: int = 0
    resolvable_row: int = -1
    texts: Mapping[int, str] = {}
    """Text of each code whose text is not that of WELCOME."""


def frame(kind: Kind, payload: bytes = b"", number: int = 0) -> bytes:
    """Return a frame."""
    return _HEADER.pack(len(payload), kind, 0, 0, number) + payload


def text(value: str) -> bytes:
    """Return an encoded text, cut to 64 KiB."""
    encoded = value.encode(errors="replace")[:0xFFFF]
    return _U16.pack(len(encoded)) + encoded


def texts(values: Iterable[str]) -> bytes:
    """Return encoded texts."""
    return b"".join(map(text, values))


def read_hello(payload: bytes) -> Hello:
    """Read the first frame. Raises BadFrame, also for another version."""
    reader = Reader(payload)
    magic, version = reader.u32(), reader.u16()
    if magic != MAGIC or version != VERSION:
        raise BadFrame(f"version {version} of the plugin, want {VERSION}: use images of one release")
    hello = Hello(reader.text(), reader.text())
    reader.end()
    return hello


def welcome(reasons: Sequence[tuple[str, bool]]) -> bytes:
    """Return the answer to HELLO; of each reason its text, and whether victims can end it."""
    return frame(
        Kind.WELCOME,
        _U16.pack(VERSION) + b"".join(_U8.pack(is_resolvable) + text(reason) for reason, is_resolvable in reasons),
    )


def table(generation: int, changes: Iterable[tuple[int, str]]) -> bytes:
    """Return the changed rows of a generation, in one frame or more."""
    payloads = [bytearray()]
    for row, name in changes:
        if len(payloads[-1]) > _TABLE_BYTES:
            payloads.append(bytearray())
        payloads[-1] += _U32.pack(row) + text(name)
    return b"".join(frame(Kind.TABLE, _U32.pack(generation) + payload) for payload in payloads)


def answer(content: Answer, number: int) -> bytes:
    """Return the answer to a question."""
    codes = b"" if content.codes is None else content.codes.tobytes()
    scores = b"" if content.scores is None else content.scores.tobytes()
    flags = CODES * bool(codes) + SCORES * bool(scores)
    head = _ANSWER.pack(content.generation, content.rows, content.resolvable_row, content.unknown_code, flags)
    details = b"".join(_U8.pack(code) + text(detail) for code, detail in content.texts.items())
    return frame(Kind.ANSWER, head + codes + scores + details, number)


def wake(uids: Sequence[str]) -> bytes:
    """Return the names of pods that pass now, in one frame or more."""
    parts = (uids[at : at + _MOST_WOKEN] for at in range(0, len(uids), _MOST_WOKEN))
    return b"".join(frame(Kind.WAKE, texts(part)) for part in parts)
