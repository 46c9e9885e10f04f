"""Decode a chunked body (RFC 9112, 7.1) from the bytes of its connection. The caller owns the connection.

A watch has a chunk for each event. A library in Python spends more on a chunk than the event itself costs; here one
loop takes all the chunks that arrived together.
"""

from __future__ import annotations

from typing import Final

_LINE_END: Final = b"\r\n"
_LONGEST_SIZE_LINE: Final = 4096
_HEXADECIMAL: Final = frozenset(b"0123456789abcdefABCDEF")


class MalformedChunk(ValueError):
    """Bytes that are not a chunked body."""


class Body:
    """Decoder of bytes that are split anywhere. `ended` is set after the last chunk; later bytes are ignored."""

    def __init__(self) -> None:
        self.ended = False
        self._missing = 0
        """Bytes of the present chunk that have not arrived."""
        self._begun = b""
        """Start of a size line that has not arrived completely."""
        self._before_size = b""
        """End of the chunk before, which precedes a size line."""

    def decode(self, data: bytes) -> bytes:
        """Return the bytes of the body in `data`. Raises MalformedChunk."""
        pieces = []
        if self._begun:
            data, self._begun = self._begun + data, b""
        at = 0
        while at < len(data) and not self.ended:
            if self._missing:
                piece = data[at : at + self._missing]
                pieces.append(piece)
                at += len(piece)
                self._missing -= len(piece)
                continue
            lead = data[at : at + len(self._before_size)]
            if not self._before_size.startswith(lead):
                raise MalformedChunk(f"{data[at : at + 40]!r} where the end of a chunk is expected")
            end = data.find(_LINE_END, at + len(lead))
            if end < 0:
                self._begun = data[at:]
                if len(self._begun) > _LONGEST_SIZE_LINE:
                    raise MalformedChunk(f"no size of a chunk in {len(self._begun)} bytes: {self._begun[:40]!r}")
                break
            self._missing = _size(data[at + len(lead) : end])
            self._before_size = _LINE_END
            self.ended = self._missing == 0
            at = end + len(_LINE_END)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def _size(line: bytes) -> int:
    digits = line.partition(b";")[0].rstrip(b" \t")
    if not digits or not _HEXADECIMAL.issuperset(digits):
        raise MalformedChunk(f"{line[:40]!r} where the size of a chunk is expected")
    return int(digits, 16)
