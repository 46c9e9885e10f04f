"""One row per node: which row is whose, when it last changed, and who keeps columns over it.

Policies answer for thousands of nodes at once, so what they read lies in arrays with the row as last axis. Each
policy owns its columns (a `RowWriter`) and rewrites one row when that node changes; reads between two changes see one
consistent state, because changes and decisions take turns in one event loop.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Protocol

import numpy as np
import numpy.typing as npt

from api_types.kubernetes import pods
from scheduler_plugin.state.node_load import NodeLoad

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]
Rows = npt.NDArray[np.intp]

_FIRST_CAPACITY: Final = 64  # rows; doubled whenever they run out


class NodeEntry:
    """Everything known of one node name: its object, and its load. Either may be missing."""

    __slots__ = ("allocatable", "load", "name", "node", "row")

    def __init__(self, name: str, row: int, load: NodeLoad) -> None:
        self.name = name
        self.row = row
        self.load = load
        self.node: pods.Node | None = None
        self.allocatable: pods.Resources = {}
        """Native allocatable, the raw-allocatable annotation applied; empty without a node object."""

    def is_empty(self) -> bool:
        """Whether nothing is known any more."""
        return self.node is None and self.load.is_empty()


class RowWriter(Protocol):
    """Keeps columns with one entry a row."""

    def grow(self, capacity: int) -> None:
        """Make room for `capacity` rows and keep what is there."""

    def write(self, entry: NodeEntry) -> None:
        """Bring the entry's row up to date."""


class Columns:
    """Arrays over the rows, each an attribute: the row is their last axis."""

    def grow(self, capacity: int) -> None:
        """Make room for `capacity` rows and keep what is there."""
        for name, value in vars(self).items():
            if isinstance(value, np.ndarray):
                setattr(self, name, grown(value, capacity))


class RowChanges(Columns):
    """Which rows changed, and when."""

    def __init__(self) -> None:
        self.version = 0
        """Counts changes of any row."""
        self.changed_at: Ints = np.zeros(0, dtype=np.int64)
        """Version at which each row last changed."""

    def changed(self, row: int) -> None:
        """Take note that a row changes."""
        self.version += 1
        self.changed_at[row] = self.version

    def changed_since(self, version: int) -> Rows:
        """Rows that changed after a version."""
        return np.flatnonzero(self.changed_at > version)


class NodeColumns(RowChanges):
    """Hands out rows and tells the writers which one changed."""

    def __init__(self, writers: Sequence[RowWriter]) -> None:
        super().__init__()
        self._writers = writers
        self._free: list[int] = []
        self.rows: dict[str, int] = {}
        """Row of each node whose object is known: the names the scheduler may send."""

    def take_row(self) -> int:
        """Return a row that nobody uses."""
        if not self._free:
            used = len(self.changed_at)
            capacity = max(2 * used, _FIRST_CAPACITY)
            self.grow(capacity)
            for writer in self._writers:
                writer.grow(capacity)
            self._free = list(range(capacity - 1, used - 1, -1))
        return self._free.pop()

    def write(self, entry: NodeEntry) -> None:
        """Rewrite the row of a node that changed."""
        self.changed(entry.row)
        if entry.node is not None:
            self.rows[entry.name] = entry.row
        else:
            self.rows.pop(entry.name, None)
        for writer in self._writers:
            writer.write(entry)

    def free_row(self, entry: NodeEntry) -> None:
        """Take back the row of a node of which nothing is known any more."""
        self.rows.pop(entry.name, None)
        self._free.append(entry.row)

    def find(self, names: list[str]) -> Rows:
        """Row of each name, in their order; -1 for a name that is not known."""
        try:
            return np.fromiter(map(self.rows.__getitem__, names), dtype=np.intp, count=len(names))
        except KeyError:
            return np.fromiter((self.rows.get(name, -1) for name in names), dtype=np.intp, count=len(names))


def grown(array: npt.NDArray[Any], capacity: int) -> npt.NDArray[Any]:
    """Copy of an array whose last axis is `capacity` long, the new entries zero."""
    result = np.zeros((*array.shape[:-1], capacity), dtype=array.dtype)
    result[..., : array.shape[-1]] = array
    return result
