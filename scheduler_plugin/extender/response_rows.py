"""Encoded node name of each row, so that a response is one gather and one join."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec
import numpy as np
import numpy.typing as npt

from scheduler_plugin.state.node_columns import Ints, NodeEntry, Rows, grown

_MOST_SCORES: Final = 100_001  # of plugins with weights up to 1,000; the texts of larger ones are made each time


class ResponseRows:
    """Encoded pieces of responses; each an object array with one entry per row."""

    def __init__(self) -> None:
        self._names: npt.NDArray[Any] = np.zeros(0, dtype=object)
        self._hosts: npt.NDArray[Any] = np.zeros(0, dtype=object)
        self._endings = _endings(range(101))
        """Text of each score, and the end of its entry; grows with the scores, not with the rows."""

    def grow(self, capacity: int) -> None:
        """Make room for `capacity` rows."""
        self._names = grown(self._names, capacity)
        self._hosts = grown(self._hosts, capacity)

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
        """Return `[{"Host":"a","Score":57},...]`; scores of 0 or more."""
        highest = int(scores.max(initial=0))
        if highest >= _MOST_SCORES:
            entries = self._hosts[rows] + _endings(scores.tolist())
        else:
            if highest >= len(self._endings):
                self._endings = _endings(range(highest + 1))
            entries = self._hosts[rows] + self._endings[scores]
        return b"[%b]" % b",".join(entries.tolist())


def _endings(scores: Sequence[int]) -> npt.NDArray[Any]:
    return np.array([b"%d}" % score for score in scores], dtype=object)
