"""Node of each row, as the plugin inside kube-scheduler knows it. Pure."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from scheduler_plugin.state.node_columns import NodeEntry, Rows


class NodeTable:
    """A `RowWriter` that counts the changes of names: nodes that came, went, or got another row."""

    def __init__(self) -> None:
        self.generation = 0
        """Number of changes."""
        self._names: list[str] = []
        self._changes: dict[int, str] = {}
        self._rows: Rows = np.zeros(0, dtype=np.intp)
        self._rows_of = 0

    def grow(self, capacity: int) -> None:
        """Make room for `capacity` rows."""
        self._names += [""] * (capacity - len(self._names))

    def write(self, entry: NodeEntry) -> None:
        """Follow one row; only a node whose object is known has it."""
        name = entry.name if entry.node is not None else ""
        if self._names[entry.row] != name:
            self._names[entry.row] = self._changes[entry.row] = name
            self.generation += 1

    def name(self, row: int) -> str:
        """Return the node of a row; empty for none."""
        return self._names[row] if 0 <= row < len(self._names) else ""

    def rows(self) -> Rows:
        """Return the rows of all nodes, ascending."""
        if self._rows_of != self.generation:
            self._rows = np.array([row for row, name in enumerate(self._names) if name], dtype=np.intp)
            self._rows_of = self.generation
        return self._rows

    def all(self) -> Iterable[tuple[int, str]]:
        """Return row and name of every node, and begin to collect changes again."""
        self._changes = {}
        return [(row, name) for row, name in enumerate(self._names) if name]

    def changes(self) -> Iterable[tuple[int, str]]:
        """Return row and name of the changes since the last call; an empty name: no node has the row any more."""
        changes, self._changes = self._changes, {}
        return changes.items()
