"""Record the last decisions and their inputs, from which each placement can be explained later.

A call of kube-scheduler only stores references (`began`, `scored`). The inputs in the columns are copied as late as
possible: before the next call, or before any row changes. The memory is bounded in bytes. The newest decisions, in half
of it, are whole; older ones keep the best nodes and the counts, in a tenth of the memory; the oldest is evicted first.
Pure.
"""

from __future__ import annotations

import collections
import copy
import enum
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from scheduler_plugin.framework.interface import Plugin, PluginInputs, PluginScores, ReasonCodes
from scheduler_plugin.state.node_columns import Floats, Ints, NodeColumns, Rows
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
    """A node that was not scored."""


@dataclass(slots=True, eq=False)
class RecordedDecision:
    """One decision, with the scores and the node that followed. Its arrays are over the nodes that have a row."""

    pod: PodInfo
    rows: Rows
    codes: ReasonCodes | None
    """Reason code of each node, 0 if it passed; None if all passed."""
    at: float
    reasons: Sequence[str]
    """Text of each reason at that moment; code - 1 is the index."""
    asked: int
    """Number of nodes that were asked about, also where fewer are kept."""
    passed: int
    """Number of nodes that passed."""
    names: npt.NDArray[Any] = field(default_factory=lambda: np.zeros(0, dtype=object))
    updated_at: Floats = field(default_factory=lambda: np.zeros(0))
    """Time of each node's report; NaN without one."""
    inputs: Mapping[str, PluginInputs] = field(default_factory=dict)
    """By plugin."""
    scores: Ints | None = None
    """Combined scores; -1 for a node that was not scored."""
    plugin_scores: Sequence[PluginScores] = ()
    node: str = ""
    """Node to which the pod is bound; empty before."""

    def size_bytes(self) -> int:
        """Return its approximate size in memory."""
        arrays = [self.rows, self.codes, self.updated_at, self.scores, self.names]
        arrays += [plugin.scores for plugin in self.plugin_scores]
        arrays += [column for explained in self.inputs.values() for column in explained.columns.values()]
        held = sum([0 if array is None else array.nbytes for array in arrays])
        return _OVERHEAD_BYTES + len(self.pod.key) + len(self.pod.uid) + held

    def score(self, rows: Rows, by_plugin: Sequence[PluginScores], scores: Ints) -> None:
        """Store the scores of some nodes."""
        self.scores, self.plugin_scores = scores, by_plugin
        if np.array_equal(rows, self.rows):
            return
        places = np.full(max(int(self.rows.max(initial=-1)), int(rows.max(initial=-1))) + 1, len(self.rows))
        places[self.rows] = np.arange(len(self.rows))

        def placed(given: Ints) -> Ints:
            result = np.full(len(self.rows) + 1, -1)  # the last is any node that is not kept
            result[places[rows]] = given
            return result[:-1]

        self.scores = placed(scores)
        self.plugin_scores = [plugin._replace(scores=placed(plugin.scores)) for plugin in by_plugin]

    def reduce(self, most_nodes: int) -> None:
        """Keep at most so many nodes: the pod's own, those with the best scores, then others."""
        count = len(self.rows)
        if count <= most_nodes:
            return
        rank = -np.arange(count) if self.scores is None else self.scores * count - np.arange(count)
        rank[self.names == self.node] = 2**62
        kept = np.sort(np.argpartition(-rank, most_nodes)[:most_nodes])  # of equals the first ones
        self.rows, self.names, self.updated_at = self.rows[kept], self.names[kept], self.updated_at[kept]
        self.codes = None if self.codes is None else self.codes[kept]
        self.scores = None if self.scores is None else self.scores[kept]
        self.plugin_scores = [plugin._replace(scores=plugin.scores[kept]) for plugin in self.plugin_scores]
        self.inputs = {
            name: explained._replace(columns={key: column[..., kept] for key, column in explained.columns.items()})
            for name, explained in self.inputs.items()
        }

    def choice(self) -> NodeChoice:
        """Compare the pod's node with the scores."""
        if self.passed == 1:
            return NodeChoice.ONLY
        if self.scores is None:
            return NodeChoice.UNKNOWN
        score = self.scores[self.names == self.node]
        if not score.size or score[0] < 0:
            return NodeChoice.UNKNOWN
        best = self.scores.max()
        if score[0] < best:
            return NodeChoice.OTHER
        is_best = self.scores == best
        if (is_best | (self.scores < 0)).all():
            return NodeChoice.INDIFFERENT
        return NodeChoice.BEST if np.count_nonzero(is_best) == 1 else NodeChoice.TIED


class DecisionRecords:
    """Records of the last decisions, limited to `max_bytes`; 0: no records."""

    def __init__(self, columns: NodeColumns, plugins: Mapping[str, Plugin], max_bytes: int) -> None:
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

    def began(self, pod: PodInfo, rows: Rows, codes: ReasonCodes | None, now: float, reasons: Sequence[str]) -> None:
        """Record a decision, on nodes of which some may have no row; the caller must not change the arrays later."""
        self.seal()
        if not self._max_bytes:
            return
        asked, passed = len(rows), len(rows) - (0 if codes is None else int(np.count_nonzero(codes)))
        if (is_unknown := rows < 0).any():
            rows, codes = rows[~is_unknown], None if codes is None else codes[~is_unknown]
        self._pending = RecordedDecision(pod, rows, codes, now, reasons, asked, passed)

    def scored(self, pod: PodInfo, rows: Rows, by_plugin: Sequence[PluginScores], scores: Ints) -> None:
        """Record the scores of the nodes that passed."""
        pending = self._pending
        if pending is not None and pending.pod.uid == pod.uid:
            pending.score(rows, by_plugin, scores)
        elif decision := self._newest(pod.key, pod.uid):
            decision.score(rows, by_plugin, scores)
            self._update_size(decision)

    def seal(self) -> None:
        """Copy the inputs of the pending decision from the columns, and store it."""
        decision, self._pending = self._pending, None
        if decision is None:
            return
        rows = decision.rows
        decision.names, decision.updated_at = self._columns.names[rows], self._columns.updated_at[rows]
        decision.inputs = {name: plugin.explain(decision.pod, rows) for name, plugin in self._plugins.items()}
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

    def bound(self, key: str, uid: str, node: str) -> None:
        """Record the node to which a pod is bound."""
        self.seal()
        decision = self._newest(key, uid)
        if decision is not None and not decision.node:
            decision.node = node[:_LONGEST_NAME]
            self.choices[decision.choice()] += 1

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
