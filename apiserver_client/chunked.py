"""The body of a chunked answer (RFC 9112, 7.1) out of the bytes of its connection. Pure: who reads owns the connection.

A watch has a chunk for each event. What a library in Python does for a chunk costs more than the event itself; here
all that have arrived together are taken out in one loop.
"""

from __future__ import annotations

from typing import Final

_LINE_END: Final = b"\r\n"
_LONGEST_SIZE_LINE: Final = 4096
_HEXADECIMAL: Final = frozenset(b"0123456789abcdefABCDEF")


class Malformed(ValueError):
    """Bytes that are no chunked body."""


class Body:
    """Takes bytes as they come, cut anywhere. `ended` once the last chunk has come; what follows is not looked at."""

    def __init__(self) -> None:
        self.ended = False
        self._missing = 0
        """Bytes of the chunk at hand that have not come yet."""
        self._begun = b""
        """A size line that has not come whole."""
        self._before_size = b""
        """What closes the chunk before, and so comes first in a size line."""

    def taken_from(self, data: bytes) -> bytes:
        """What of the body is in `data`. Raises Malformed."""
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
                raise Malformed(f"{data[at : at + 40]!r} where a chunk should have ended")
            end = data.find(_LINE_END, at + len(lead))
            if end < 0:
                self._begun = data[at:]
                if len(self._begun) > _LONGEST_SIZE_LINE:
                    raise Malformed(f"no size of a chunk in {len(self._begun)} bytes: {self._begun[:40]!r}")
                break
            self._missing = _size(data[at + len(lead) : end])
            self._before_size = _LINE_END
            self.ended = self._missing == 0
            at = end + len(_LINE_END)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def _size(line: bytes) -> int:
    digits = line.partition(b";")[0].rstrip(b" \t")
    if not digits or not _HEXADECIMAL.issuperset(digits):
        raise Malformed(f"{line[:40]!r} where the size of a chunk should be")
    return int(digits, 16)
