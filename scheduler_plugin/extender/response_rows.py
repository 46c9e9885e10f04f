"""Response rows: byte matrices with one row of equal width per node, so that a response is one gather and one copy.

JSON allows blanks after a string, so `"name"   ,` fills a row; kube-scheduler's decoder reads both layouts alike.
"""

from __future__ import annotations

from typing import Final

import msgspec
import numpy as np
import numpy.typing as npt

from scheduler_plugin.state.node_columns import Ints, NodeEntry, Rows

Bytes = npt.NDArray[np.uint8]

_BLANK: Final = ord(" ")
_HOST: Final = b'{"Host":'
_SCORE: Final = b',"Score":'
_END: Final = b"},"
_FIRST_WIDTH: Final = 16


def _bytes(text: bytes) -> Bytes:
    return np.frombuffer(text, dtype=np.uint8)


_DIGITS: Final = np.stack([_bytes(b"%3d" % score) for score in range(101)])
"""Text of each score, three bytes wide: numbers may have blanks in front, not zeros."""


class ResponseRows:
    """Encoded node name of each row."""

    def __init__(self) -> None:
        self._width = _FIRST_WIDTH
        self._written: dict[int, str] = {}
        self._names: Bytes = np.zeros((0, 0), dtype=np.uint8)
        self._priorities: Bytes = np.zeros((0, 0), dtype=np.uint8)
        self._lay_out(0, self._names)

    def grow(self, capacity: int) -> None:
        """Make room for `capacity` rows."""
        self._lay_out(capacity, self._names[:, :-1])

    def write(self, entry: NodeEntry) -> None:
        """Encode a node's name into its row."""
        if self._written.get(entry.row) == entry.name:
            return
        self._written[entry.row] = entry.name
        encoded = msgspec.json.encode(entry.name)
        if len(encoded) > self._width:
            self._width = len(encoded)
            self._lay_out(len(self._names), self._names[:, :-1])
        padded = _bytes(encoded.ljust(self._width))
        self._names[entry.row, : self._width] = padded
        self._priorities[entry.row, len(_HOST) : len(_HOST) + self._width] = padded

    def node_names(self, rows: Rows) -> bytes:
        """Return the names of rows as `"a","b"`, without brackets."""
        return self._names[rows].tobytes()[:-1]

    def priorities(self, rows: Rows, scores: Ints) -> bytes:
        """Return `[{"Host":"a","Score":57},...]`; scores 0..100."""
        matrix = self._priorities[rows]
        digits_at = matrix.shape[1] - len(_END) - _DIGITS.shape[1]
        matrix[:, digits_at : digits_at + _DIGITS.shape[1]] = _DIGITS[scores]
        return b"[%b]" % matrix.tobytes()[:-1]

    def _lay_out(self, capacity: int, names: Bytes) -> None:
        """Allocate both matrices, with `capacity` rows of the present width, and copy the encoded names."""
        rows, width = names.shape
        self._names = np.full((capacity, self._width + 1), _BLANK, dtype=np.uint8)
        self._names[:, -1] = ord(",")
        self._names[:rows, :width] = names
        template = _HOST + b" " * self._width + _SCORE + b" " * _DIGITS.shape[1] + _END
        self._priorities = np.tile(_bytes(template), (capacity, 1))
        self._priorities[:rows, len(_HOST) : len(_HOST) + width] = names
