"""Assign a row to each node, count its changes, and notify the writers of columns over the rows.

The name of each row, and the time of its node's report, are columns too.

A plugin decides on thousands of nodes in one call, so its inputs are arrays with the row as last axis. Each plugin owns
its columns (a `RowWriter`) and rewrites one row when that node changes. Reads between two changes see one consistent
state, because changes and decisions take turns in one event loop.
"""

from __future__ import annotations

import collections
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Generic, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from api_types.kubernetes import pods
from scheduler_plugin.state.mid_quotas import MidQuotas
from scheduler_plugin.state.node_load import NodeLoad

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]
Rows = npt.NDArray[np.intp]

_FIRST_CAPACITY: Final = 64  # rows; doubled whenever they run out


@dataclass(slots=True, eq=False)
class NodeEntry:
    """State of one node name: its object, and its load. Either may be missing."""

    name: str
    row: int
    load: NodeLoad
    node: pods.Node | None = None
    allocatable: pods.Resources = field(default_factory=dict)
    """Native allocatable, the raw-allocatable annotation applied; empty without a node object."""

    def is_empty(self) -> bool:
        """Return whether neither the node object nor any load is known."""
        return self.node is None and self.load.is_empty()


class RowWriter(Protocol):
    """Writer of columns with one entry per row."""

    def grow(self, capacity: int) -> None:
        """Make room for `capacity` rows, and keep the existing values."""

    def write(self, entry: NodeEntry) -> None:
        """Update the entry's row."""


class Columns:
    """Arrays over the rows, each an attribute: the row is their last axis."""

    def grow(self, capacity: int) -> None:
        """Make room for `capacity` rows, and keep the existing values."""
        for name, value in vars(self).items():
            if isinstance(value, np.ndarray):
                setattr(self, name, grown(value, capacity))


class RowChanges(Columns):
    """Version of the last change of each row."""

    def __init__(self) -> None:
        self.version = 0
        """Number of changes of any row."""
        self.changed_at: Ints = np.zeros(0, dtype=np.int64)
        """Version at which each row last changed."""

    def changed(self, row: int) -> None:
        """Record that a row changes."""
        self.version += 1
        self.changed_at[row] = self.version


class NodeColumns(RowChanges):
    """Allocator of rows, which notifies the writers of each change."""

    def __init__(self, writers: Sequence[RowWriter]) -> None:
        super().__init__()
        self._writers = writers
        self._free: list[int] = []
        self._deferred: dict[int, NodeEntry] | None = None
        self.rows: dict[str, int] = {}
        """Row of each node whose object is known: the names that kube-scheduler may send."""
        self.names: npt.NDArray[Any] = np.zeros(0, dtype=object)
        """Name of the node that has each row, or had it last."""
        self.generation = 0
        """Number of nodes that came, went, or got another row."""
        self._renamed: dict[int, str] = {}
        """Rows with another node since the last call of `renamed`; an empty name: none."""
        self._used_rows: tuple[int, Rows] = (0, np.zeros(0, dtype=np.intp))
        """Result of `used_rows`, and its generation."""
        self.updated_at: Floats = np.zeros(0)
        """Time of the newest report; NaN without one."""
        self.about_to_change: Callable[[], None] = lambda: None
        """Called before any row changes."""
        self.blindness = ""
        """Cause, where reports expire because this process cannot see them, and not because the agents are silent."""
        self.is_blind: Bools = np.zeros(0, dtype=np.bool_)
        """Nodes that pass with an expired report, for that cause."""
        self.frozen = False
        """Whether no node admits new Mid pods: `midEmergency` of the manager's configuration."""
        self.mid_quotas = MidQuotas()
        """Mid resources that each namespace holds, and may hold."""

    def take_row(self) -> int:
        """Return an unused row."""
        if not self._free:
            used = len(self.changed_at)
            capacity = max(2 * used, _FIRST_CAPACITY)
            self.grow(capacity)
            for writer in self._writers:
                writer.grow(capacity)
            self._free = list(range(capacity - 1, used - 1, -1))
        return self._free.pop()

    def write(self, entry: NodeEntry) -> None:
        """Rewrite the row of a changed node in the columns of every writer; without its object no decision reads it."""
        if entry.node is None and entry.name not in self.rows:
            return
        if self._deferred is not None and entry.node is not None:
            self._deferred[entry.row] = entry
            return
        self.about_to_change()
        self.changed(entry.row)
        if entry.node is None:
            del self.rows[entry.name]
            self._rename(entry.row, "")
        elif self.rows.get(entry.name) != entry.row:
            self.rows[entry.name] = entry.row
            self.names[entry.row] = entry.name
            self._rename(entry.row, entry.name)
        report = entry.load.report
        self.updated_at[entry.row] = np.nan if report is None or report.update_time is None else report.update_time
        for writer in self._writers:
            writer.write(entry)

    def defer(self) -> None:
        """Rewrite the rows of nodes once, at `rewrite`: all their pods change, and nothing is decided before."""
        self._deferred = self._deferred or {}

    def rewrite(self) -> None:
        """Rewrite the rows of the nodes that have changed since `defer`."""
        deferred, self._deferred = self._deferred or {}, None
        for entry in deferred.values():
            if entry.node is not None:  # else it was deleted since
                self.write(entry)

    def free_row(self, entry: NodeEntry) -> None:
        """Release the row of a node whose entry was deleted."""
        self.rows.pop(entry.name, None)
        self._free.append(entry.row)

    def _rename(self, row: int, name: str) -> None:
        self._renamed[row] = name
        self.generation += 1

    def renamed(self) -> dict[int, str]:
        """Return the rows that have another node since the last call; an empty name: no node has the row any more."""
        renamed, self._renamed = self._renamed, {}
        return renamed

    def used_rows(self) -> Rows:
        """Return the rows of all nodes, ascending."""
        if self._used_rows[0] != self.generation:
            self._used_rows = self.generation, np.array(sorted(self.rows.values()), dtype=np.intp)
        return self._used_rows[1]

    def name(self, row: int) -> str:
        """Return the node of a row; empty for none."""
        name = self.names[row] if 0 <= row < len(self.names) else ""
        return name if self.rows.get(name) == row else ""

    def find(self, names: list[str]) -> Rows:
        """Return the row of each name, in their order; -1 for an unknown name."""
        try:
            return np.fromiter(map(self.rows.__getitem__, names), dtype=np.intp, count=len(names))
        except KeyError:
            return np.fromiter((self.rows.get(name, -1) for name in names), dtype=np.intp, count=len(names))


def grown(array: npt.NDArray[Any], capacity: int) -> npt.NDArray[Any]:
    """Copy an array to a last axis of length `capacity`; the new entries are zero."""
    result = np.zeros((*array.shape[:-1], capacity), dtype=array.dtype)
    result[..., : array.shape[-1]] = array
    return result


PodClass = TypeVar("PodClass", bound=Hashable)

_MOST_BYTES: Final = 16 * 2**20
"""Limit of one cache; at 5,000 nodes it holds 200 to 335 classes. The least recently used class is evicted."""
_MOST_CLASSES: Final = 1024
_FEWEST_CLASSES: Final = 64

CachedResults = npt.NDArray[Any]


@dataclass(slots=True)
class _Cached:
    results: CachedResults
    computed_at: Ints
    """Version of each row when its result was computed; -1 before."""


class EquivalenceCache(Generic[PodClass]):
    """LRU cache: pod class -> result per node row, of type `dtype`. `compute(pod_class, rows)` returns some of them.

    A result is computed again only when its row changed. Pods of one workload form one class, so most calls find all
    but a few rows computed. A new class costs the candidates of its call, never the whole cluster. What depends on the
    time, such as the age of a report, does not belong into a cached result.
    """

    def __init__(self, compute: Callable[[PodClass, Rows], CachedResults], dtype: npt.DTypeLike) -> None:
        self._compute = compute
        self._dtype = np.dtype(dtype)
        self._bytes_a_row = self._dtype.itemsize + np.dtype(np.int64).itemsize
        self._by_class: collections.OrderedDict[PodClass, _Cached] = collections.OrderedDict()

    def results(self, pod_class: PodClass, rows: Rows, changes: RowChanges) -> CachedResults:
        """Return the results of `rows`, in their order; the caller may change the array."""
        cached = self._class_results(pod_class, len(changes.changed_at))
        changed_at = changes.changed_at[rows]
        is_stale = cached.computed_at[rows] < changed_at
        if is_stale.any():
            stale = rows[is_stale]
            cached.results[stale] = self._compute(pod_class, stale)
            cached.computed_at[stale] = changed_at[is_stale]
        return cached.results[rows]

    def _class_results(self, pod_class: PodClass, rows: int) -> _Cached:
        cached = self._by_class.pop(pod_class, None)
        if cached is None or len(cached.results) < rows:  # the rows of a growing cluster double, and rarely
            cached = _Cached(np.empty(rows, self._dtype), np.full(rows, -1))
            most = min(max(_MOST_BYTES // (self._bytes_a_row * max(rows, 1)), _FEWEST_CLASSES), _MOST_CLASSES)
            while len(self._by_class) >= most:
                self._by_class.popitem(last=False)
        self._by_class[pod_class] = cached
        return cached
