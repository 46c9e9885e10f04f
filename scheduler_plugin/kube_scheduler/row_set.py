"""Sets of rows, a bit each: as numbers, those of thousands of pods on thousands of nodes take hundreds of MiB. Pure."""

from __future__ import annotations

from typing import Final

import numpy as np

from scheduler_plugin.state.node_columns import Bools, Rows


class RowSet:
    """Some rows."""

    __slots__ = ("_bits",)

    def __init__(self, rows: Rows) -> None:
        is_inside = np.zeros(int(rows.max(initial=-1)) + 1, dtype=np.bool_)
        is_inside[rows] = True
        self._bits = np.packbits(is_inside, bitorder="little")

    def contains(self, rows: Rows) -> Bools:
        """Return for each of `rows` whether it is inside."""
        contained: Bools = np.zeros(len(rows), dtype=np.bool_)
        is_covered = rows < 8 * len(self._bits)
        covered = rows[is_covered]
        contained[is_covered] = np.bitwise_and(self._bits[covered >> 3], np.left_shift(1, covered & 7)) != 0
        return contained

    def meets(self, other: RowSet) -> bool:
        """Return whether a row is in both."""
        length = min(len(self._bits), len(other._bits))  # of the same class
        return bool(np.bitwise_and(self._bits[:length], other._bits[:length]).any())


NO_ROWS: Final = RowSet(np.zeros(0, dtype=np.intp))
