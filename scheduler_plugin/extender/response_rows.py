"""Encoded node name of each row, so that a response is one gather and one join."""

from __future__ import annotations

from typing import Any, Final

import msgspec
import numpy as np
import numpy.typing as npt

from scheduler_plugin.state.node_columns import Columns, Ints, NodeEntry, Rows

_SCORES: Final = np.array([b"%d}" % score for score in range(101)], dtype=object)
"""Text of each score, and the end of its entry."""


class ResponseRows(Columns):
    """Encoded pieces of responses; each an object array with one entry per row."""

    def __init__(self) -> None:
        self._names: npt.NDArray[Any] = np.zeros(0, dtype=object)
        self._hosts: npt.NDArray[Any] = np.zeros(0, dtype=object)

    def write(self, entry: NodeEntry) -> None:
        """Encode a node's name into its row."""
        encoded = msgspec.json.encode(entry.name)
        self._names[entry.row] = encoded
        self._hosts[entry.row] = b'{"Host":%b,"Score":' % encoded

    def node_name(self, row: int) -> str:
        """Return the name of the node of a row."""
        name: str = msgspec.json.decode(self._names[row])
        return name

    def node_names(self, rows: Rows) -> bytes:
        """Return the names of rows as `"a","b"`, without brackets."""
        return b",".join(self._names[rows].tolist())

    def priorities(self, rows: Rows, scores: Ints) -> bytes:
        """Return `[{"Host":"a","Score":57},...]`; scores 0..100."""
        entries = self._hosts[rows] + _SCORES[scores]
        return b"[%b]" % b",".join(entries.tolist())
