"""Record the last decisions and their inputs, from which each placement can be explained later.

A call of kube-scheduler only stores references (`filtered`, `scored`). The inputs in the columns are copied as late as
possible: before the next call, or before any row changes (`RecordedColumns` is the first writer of every row). The
memory is bounded in bytes. The newest decisions, in half of it, are whole; older ones keep the best nodes and the
counts, in a tenth of the memory; the oldest is evicted first. Pure.
"""

from __future__ import annotations

import collections
import copy
import enum
import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from scheduler_plugin.framework.interface import Plugin, PluginInputs, PluginScores, ReasonCodes
from scheduler_plugin.state.node_columns import Columns, Floats, Ints, NodeEntry, Rows
from scheduler_plugin.state.pod_info import PodInfo

DECISIONS_PER_POD: Final = 3
"""Most records of one pod: a pod that fits on no node is tried again and again, and must not evict all others."""

NODES_OF_OLD_DECISIONS: Final = 20
"""Nodes that an older decision keeps: the pod's own, those with the best scores, then others."""

_OVERHEAD_BYTES: Final = 2048  # of a decision, beside its arrays and names
_LONGEST_NAME: Final = 253  # of a node, as the apiserver has it


class NodeChoice(enum.StrEnum):
    """Node of a pod, compared with the extender's scores (docs/how-to/explain-a-pod.md)."""

    BEST = "best"
    """The one node with the best score."""
    TIED = "tied"
    """One of several nodes with the best score: kube-scheduler's own scores, or chance, chose among them."""
    OTHER = "other"
    """A node without the best score: kube-scheduler's own scores had more weight."""
    INDIFFERENT = "indifferent"
    """Any node, because all had the same score."""
    ONLY = "only"
    """The only node that passed; nothing was scored."""
    UNKNOWN = "unknown"
    """There is no record of the pod, or its nodes were not scored."""


@dataclass(slots=True, eq=False)
class RecordedDecision:
    """One filter call, with the scores and the node that followed. Nodes are in the order of the request."""

    pod: PodInfo
    rows: Rows
    names: Sequence[str] | npt.NDArray[Any]
    codes: ReasonCodes | None
    """Reason code of each node, 0 if it passed; None if all passed."""
    at: float
    reasons: Sequence[str] = ()
    """Text of each reason at that moment; code - 1 is the index."""
    asked: int = field(init=False)
    """Number of nodes in the request, also where fewer are kept."""
    passed: int = field(init=False)
    """Number of nodes that passed."""
    unknown_names_bytes: int = 0
    updated_at: Floats = field(default_factory=lambda: np.zeros(0))
    """Time of each node's report; NaN without one."""
    inputs: Mapping[str, PluginInputs] = field(default_factory=dict)
    """By plugin."""
    nodes_scored: Rows | None = None
    """Rows of the nodes that were scored."""
    scores: Ints | None = None
    """Combined scores of these rows."""
    plugin_scores: Sequence[PluginScores] = ()
    node: str = ""
    """Node to which the pod is bound; empty before."""

    def __post_init__(self) -> None:
        self.asked = len(self.rows)
        self.passed = self.asked - (0 if self.codes is None else int(np.count_nonzero(self.codes)))

    def size_bytes(self) -> int:
        """Return its approximate size in memory."""
        arrays = [self.rows, self.codes, self.updated_at, self.nodes_scored, self.scores, self.names]
        arrays += [plugin.scores for plugin in self.plugin_scores]
        arrays += [column for explained in self.inputs.values() for column in explained.columns.values()]
        texts = len(self.pod.key) + len(self.pod.uid) + self.unknown_names_bytes
        return _OVERHEAD_BYTES + texts + sum(array.nbytes for array in arrays if isinstance(array, np.ndarray))

    def is_whole(self) -> bool:
        """Return whether every node of the request is kept."""
        return len(self.rows) == self.asked

    def reduce(self, most_nodes: int) -> None:
        """Keep at most so many nodes: the pod's own, those with the best scores, then others."""
        if len(self.rows) <= most_nodes:
            return
        rank = self._scores_of_rows() * len(self.rows) - np.arange(len(self.rows))  # of equals the first ones
        if self.node:
            rank[self._names() == self.node] = np.iinfo(np.int64).max
        indices = np.sort(np.argpartition(-rank, most_nodes)[:most_nodes])
        self.names = self._names()[indices]
        self.unknown_names_bytes = sum(
            len(name) for name, row in zip(self.names, self.rows[indices], strict=True) if row < 0
        )
        self.rows = self.rows[indices]
        self.codes = None if self.codes is None else self.codes[indices]
        self.updated_at = self.updated_at[indices]
        self.inputs = {
            name: explained._replace(columns={key: column[..., indices] for key, column in explained.columns.items()})
            for name, explained in self.inputs.items()
        }
        if self.nodes_scored is not None:
            is_kept = np.zeros(self._lookup_size(), dtype=np.bool_)
            is_kept[self.rows] = True
            scored = np.flatnonzero(is_kept[self.nodes_scored])
            self.nodes_scored = self.nodes_scored[scored]
            self.scores = None if self.scores is None else self.scores[scored]
            self.plugin_scores = [plugin._replace(scores=plugin.scores[scored]) for plugin in self.plugin_scores]

    def _scores_of_rows(self) -> Ints:
        """Return the score of each node of the request, -1 where it was not scored."""
        scores = np.full(self._lookup_size(), -1, dtype=np.int64)
        if self.nodes_scored is not None and self.scores is not None:
            scores[self.nodes_scored] = self.scores
        return scores[self.rows]

    def _names(self) -> npt.NDArray[Any]:
        return self.names if isinstance(self.names, np.ndarray) else np.array(self.names, dtype=object)

    def _lookup_size(self) -> int:
        """Return the size of an array by row, with a last entry for row -1."""
        scored = -1 if self.nodes_scored is None else int(self.nodes_scored.max(initial=-1))
        return max(int(self.rows.max(initial=-1)), scored) + 2

    def choice(self, row: int | None) -> NodeChoice:
        """Compare the pod's node with the scores; `row` is None for an unknown node."""
        if self.passed == 1:
            return NodeChoice.ONLY
        if self.nodes_scored is None or self.scores is None or row is None:
            return NodeChoice.UNKNOWN
        score = self.scores[self.nodes_scored == row]
        if not score.size:  # also where no node at all was scored
            return NodeChoice.UNKNOWN
        best = self.scores.max()
        if score[0] < best:
            return NodeChoice.OTHER
        if self.scores.min() == best:
            return NodeChoice.INDIFFERENT
        return NodeChoice.BEST if np.count_nonzero(self.scores == best) == 1 else NodeChoice.TIED


class RecordedColumns(Columns):
    """Node name and report time per row, for the records and for the metric of stale nodes.

    Must be the first RowWriter: its `write` calls `about_to_change`, which seals the pending decision before any column
    changes.
    """

    def __init__(self) -> None:
        self.about_to_change: Callable[[], None] = lambda: None
        self.names: npt.NDArray[Any] = np.zeros(0, dtype=object)
        self.updated_at: Floats = np.zeros(0)

    def write(self, entry: NodeEntry) -> None:
        """Update one node's row."""
        self.about_to_change()
        report = entry.load.report
        self.names[entry.row] = entry.name
        self.updated_at[entry.row] = np.nan if report is None or report.update_time is None else report.update_time


class DecisionRecords:
    """Records of the last decisions, limited to `max_bytes`; 0: no records."""

    def __init__(self, columns: RecordedColumns, plugins: Mapping[str, Plugin], max_bytes: int) -> None:
        self._columns = columns
        columns.about_to_change = self.seal
        self._plugins = plugins
        self._max_bytes = max_bytes
        self._pending: RecordedDecision | None = None
        self._by_number: collections.OrderedDict[int, tuple[RecordedDecision, int]] = collections.OrderedDict()
        self._of_pod: dict[str, list[int]] = {}
        self._next_number = 0
        self._first_whole = 0
        """Number of the oldest decision that is not reduced."""
        self._whole_bytes = 0
        self.bytes = 0
        self.choices: dict[NodeChoice, int] = dict.fromkeys(NodeChoice, 0)
        """Number of bound pods by choice, since the start."""

    def __len__(self) -> int:
        """Return the number of recorded decisions."""
        return len(self._by_number) + (self._pending is not None)

    def began(
        self,
        pod: PodInfo,
        rows: Rows,
        names: Sequence[str],
        codes: ReasonCodes | None,
        now: float,
        *,
        reasons: Sequence[str] = (),
    ) -> None:
        """Record the first call of a cycle; the caller must not change the arrays later.

        `reasons` are needed where a node is rejected.
        """
        self.seal()
        if self._max_bytes:
            self._pending = RecordedDecision(pod, rows, names, codes, now, reasons=reasons)

    def scored(self, pod: PodInfo, rows: Rows, by_plugin: Sequence[PluginScores], scores: Ints) -> None:
        """Record the scores of the nodes that passed."""
        pending = self._pending
        decision = pending if pending is not None and pending.pod.uid == pod.uid else self._newest(pod.key, pod.uid)
        if decision is not None:
            decision.nodes_scored, decision.plugin_scores, decision.scores = rows, by_plugin, scores
            if decision is not pending:
                self._update_size(decision)

    def seal(self) -> None:
        """Copy the inputs of the pending decision from the columns, and store it."""
        decision, self._pending = self._pending, None
        if decision is None:
            return
        self._copy_columns(decision)
        size = decision.size_bytes()
        numbers = self._of_pod.setdefault(decision.pod.key, [])
        numbers.append(self._next_number)
        self._by_number[self._next_number] = (decision, size)
        self._next_number += 1
        self.bytes += size
        self._whole_bytes += size
        if len(numbers) > DECISIONS_PER_POD:
            self._drop(numbers[0])
        self._make_room()

    def awaits_node(self, key: str, uid: str) -> bool:
        """Return whether the node of a pod is not recorded yet."""
        self.seal()
        decision = self._newest(key, uid)
        return decision is not None and not decision.node

    def bound(self, key: str, uid: str, node: str, row: int | None) -> None:
        """Record the node to which a pod is bound."""
        self.seal()
        decision = self._newest(key, uid)
        choice = NodeChoice.UNKNOWN
        if decision is not None:
            decision.node = node[:_LONGEST_NAME]
            choice = decision.choice(row)
        self.choices[choice] += 1

    def decisions(self, key: str) -> list[RecordedDecision]:
        """Return the decisions on a pod by namespace/name, newest first.

        They are copies, which another thread may read: a recorded decision shrinks when it is an old one.
        """
        self.seal()
        return [copy.copy(self._by_number[number][0]) for number in reversed(self._of_pod.get(key, ()))]

    def recent(self, most: int) -> list[RecordedDecision]:
        """Return the last decisions, newest first."""
        self.seal()
        return [decision for decision, _size in itertools.islice(reversed(self._by_number.values()), most)]

    def _copy_columns(self, decision: RecordedDecision) -> None:
        rows = decision.rows
        is_complete = bool(len(rows)) and rows.min() >= 0
        if not is_complete:
            named_rows = zip(decision.names, rows.tolist(), strict=True)
            decision.unknown_names_bytes = sum(len(name) for name, row in named_rows if row < 0)
        if not len(rows) or rows.max() < 0:
            decision.updated_at = np.full(len(rows), np.nan)
            return
        names, decision.updated_at = self._columns.names[rows], self._columns.updated_at[rows]
        if not is_complete:
            is_known = rows >= 0
            names = np.where(is_known, names, decision.names)
            decision.updated_at[~is_known] = np.nan
        decision.names = names
        decision.inputs = {name: plugin.explain(decision.pod, rows) for name, plugin in self._plugins.items()}

    def _newest(self, key: str, uid: str) -> RecordedDecision | None:
        numbers = self._of_pod.get(key)
        decision = self._by_number[numbers[-1]][0] if numbers else None
        return decision if decision is not None and decision.pod.uid == uid else None

    def _update_size(self, decision: RecordedDecision) -> None:
        number = self._of_pod[decision.pod.key][-1]
        size = decision.size_bytes()
        self.bytes += size - self._by_number[number][1]
        if number >= self._first_whole:
            self._whole_bytes += size - self._by_number[number][1]
        self._by_number[number] = (decision, size)
        self._make_room()

    def _make_room(self) -> None:
        while self._whole_bytes > self._max_bytes // 2:
            number, self._first_whole = self._first_whole, self._first_whole + 1
            if number in self._by_number:
                decision, size = self._by_number[number]
                decision.reduce(NODES_OF_OLD_DECISIONS)
                self._whole_bytes -= size
                self._by_number[number] = (decision, decision.size_bytes())
                self.bytes += self._by_number[number][1] - size
        while self.bytes > self._max_bytes:
            self._drop(next(iter(self._by_number)))

    def _drop(self, number: int) -> None:
        decision, size = self._by_number.pop(number)
        self.bytes -= size
        if number >= self._first_whole:
            self._whole_bytes -= size
        numbers = self._of_pod[decision.pod.key]
        numbers.remove(number)
        if not numbers:
            del self._of_pod[decision.pod.key]
