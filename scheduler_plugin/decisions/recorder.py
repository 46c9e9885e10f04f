"""What was decided about the last pods, and from what: enough to say later why here, and why not there.

A call of kube-scheduler only leaves references behind (`filtered`, `scored`). What the columns held at that moment is
copied as late as it can be: when the next call comes, or a row is about to change (`NodeColumns` is the first writer
of every row). The memory is bounded in bytes; what is oldest goes first. Pure.
"""

from __future__ import annotations

import collections
import enum
import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from scheduler_plugin.framework.cycle import PolicyScores
from scheduler_plugin.framework.interface import Explained, Explainer, ReasonCodes
from scheduler_plugin.state.node_columns import Columns, Floats, Ints, NodeEntry, Rows
from scheduler_plugin.state.pod_info import PodInfo

KEPT_OF_A_POD: Final = 3
"""Decisions: a pod that fits nowhere is tried for ever, and must not push out all others."""

_OVERHEAD_BYTES: Final = 2048  # of a decision, beside its arrays and names
_LONGEST_NAME: Final = 253  # of a node, as the apiserver has it


class Choice(enum.StrEnum):
    """Where a pod went, as far as our scores tell (docs/how-to/explain-a-pod.md)."""

    BEST = "best"
    """To the one node with our best score."""
    TIED = "tied"
    """To one of several with our best score: kube-scheduler's own scores, or chance, chose among them."""
    OTHER = "other"
    """Not to a node with our best score: kube-scheduler's own scores outweighed ours."""
    INDIFFERENT = "indifferent"
    """All nodes had the same score of ours."""
    ONLY = "only"
    """Only one node passed; nothing was scored."""
    UNKNOWN = "unknown"
    """Nothing is remembered of the pod, or its nodes were not scored."""


class Decision:
    """One filter call, and what followed. Nodes are in the order kube-scheduler named them."""

    __slots__ = (
        "at",
        "codes",
        "inputs",
        "names",
        "node",
        "nodes_scored",
        "pod",
        "policy_scores",
        "rows",
        "scores",
        "unknown_names_bytes",
        "updated_at",
    )

    def __init__(self, pod: PodInfo, rows: Rows, names: Sequence[str], codes: ReasonCodes | None, at: float) -> None:
        self.pod = pod
        self.rows = rows
        self.names: Sequence[str] | npt.NDArray[Any] = names
        self.unknown_names_bytes = 0
        self.codes = codes
        """Why each node was rejected, 0 where it was not; None: none was."""
        self.at = at
        self.updated_at: Floats = np.zeros(0)
        """When each node's report was made; NaN without one."""
        self.inputs: Mapping[str, Explained] = {}
        """By policy."""
        self.nodes_scored: Rows | None = None
        """Rows of the nodes that were scored."""
        self.scores: Ints | None = None
        """What was answered for these."""
        self.policy_scores: Sequence[PolicyScores] = ()
        self.node = ""
        """Where the pod went; empty while that is not known."""

    def size_bytes(self) -> int:
        """About how much memory it takes."""
        arrays = [self.rows, self.codes, self.updated_at, self.nodes_scored, self.scores, self.names]
        arrays += [each.scores for each in self.policy_scores]
        arrays += [column for each in self.inputs.values() for column in each.columns.values()]
        texts = len(self.pod.key) + len(self.pod.uid) + self.unknown_names_bytes
        return _OVERHEAD_BYTES + texts + sum(each.nbytes for each in arrays if isinstance(each, np.ndarray))

    def passed(self) -> int:
        """How many nodes were not rejected."""
        return len(self.rows) - (0 if self.codes is None else int(np.count_nonzero(self.codes)))

    def choice(self, row: int | None) -> Choice:
        """How the node that the pod went to was scored; `row` None: a node that is not known."""
        if self.passed() == 1:
            return Choice.ONLY
        if self.nodes_scored is None or self.scores is None or row is None:
            return Choice.UNKNOWN
        score = self.scores[self.nodes_scored == row]
        if not score.size:  # also where no node at all was scored
            return Choice.UNKNOWN
        best = self.scores.max()
        if score[0] < best:
            return Choice.OTHER
        if self.scores.min() == best:
            return Choice.INDIFFERENT
        return Choice.BEST if np.count_nonzero(self.scores == best) == 1 else Choice.TIED


class RecordedColumns(Columns):
    """Name and age of data of each row, for decisions to keep and for the count of stale nodes.

    `about_to_change` is called before any row is written, if this is the first of the writers.
    """

    def __init__(self) -> None:
        self.about_to_change: Callable[[], None] = lambda: None
        self.names: npt.NDArray[Any] = np.zeros(0, dtype=object)
        self.updated_at: Floats = np.zeros(0)

    def write(self, entry: NodeEntry) -> None:
        """Bring one node's row up to date."""
        self.about_to_change()
        report = entry.load.report
        self.names[entry.row] = entry.name
        self.updated_at[entry.row] = np.nan if report is None or report.update_time is None else report.update_time


class DecisionRecords:
    """The last decisions, at most so many bytes of them; 0 bytes: none are kept."""

    def __init__(self, columns: RecordedColumns, explainers: Mapping[str, Explainer], max_bytes: int) -> None:
        self._columns = columns
        columns.about_to_change = self.seal
        self._explainers = explainers
        self._max_bytes = max_bytes
        self._pending: Decision | None = None
        self._by_number: collections.OrderedDict[int, tuple[Decision, int]] = collections.OrderedDict()
        self._of_pod: dict[str, list[int]] = {}
        self._next_number = 0
        self.bytes = 0
        self.choices: dict[Choice, int] = dict.fromkeys(Choice, 0)
        """How many pods went where."""

    def __len__(self) -> int:
        """How many decisions are kept."""
        return len(self._by_number) + (self._pending is not None)

    def filtered(self, pod: PodInfo, rows: Rows, names: Sequence[str], codes: ReasonCodes | None, now: float) -> None:
        """Take a filter call, whose arrays nobody will change."""
        self.seal()
        if self._max_bytes:
            self._pending = Decision(pod, rows, names, codes, now)

    def scored(self, pod: PodInfo, rows: Rows, by_policy: Sequence[PolicyScores], scores: Ints) -> None:
        """Take the scores of nodes that passed."""
        pending = self._pending
        decision = pending if pending is not None and pending.pod.uid == pod.uid else self._newest(pod.key, pod.uid)
        if decision is not None:
            decision.nodes_scored, decision.policy_scores, decision.scores = rows, by_policy, scores
            if decision is not pending:
                self._weigh_again(decision)

    def seal(self) -> None:
        """Copy what the columns hold for the last decision, if that is not done yet, and keep it."""
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
        if len(numbers) > KEPT_OF_A_POD:
            self._drop(numbers[0])
        self._make_room()

    def bound(self, key: str, uid: str, node: str, row: int | None) -> None:
        """Take note of where a pod goes."""
        self.seal()
        decision = self._newest(key, uid)
        choice = Choice.UNKNOWN
        if decision is not None:
            decision.node = node[:_LONGEST_NAME]
            choice = decision.choice(row)
        self.choices[choice] += 1

    def of(self, key: str) -> list[Decision]:
        """Decisions about a pod by namespace/name, newest first."""
        self.seal()
        return [self._by_number[number][0] for number in reversed(self._of_pod.get(key, ()))]

    def recent(self, most: int) -> list[Decision]:
        """Return the last decisions, newest first."""
        self.seal()
        return [decision for decision, _size in itertools.islice(reversed(self._by_number.values()), most)]

    def _copy_columns(self, decision: Decision) -> None:
        rows = decision.rows
        is_complete = bool(len(rows)) and rows.min() >= 0
        if not is_complete:
            asked = zip(decision.names, rows.tolist(), strict=True)
            decision.unknown_names_bytes = sum(len(name) for name, row in asked if row < 0)
        if not len(rows) or rows.max() < 0:
            decision.updated_at = np.full(len(rows), np.nan)
            return
        names, decision.updated_at = self._columns.names[rows], self._columns.updated_at[rows]
        if not is_complete:
            is_known = rows >= 0
            names = np.where(is_known, names, decision.names)
            decision.updated_at[~is_known] = np.nan
        decision.names = names
        decision.inputs = {name: each.explain(decision.pod, rows) for name, each in self._explainers.items()}

    def _newest(self, key: str, uid: str) -> Decision | None:
        numbers = self._of_pod.get(key)
        decision = self._by_number[numbers[-1]][0] if numbers else None
        return decision if decision is not None and decision.pod.uid == uid else None

    def _weigh_again(self, decision: Decision) -> None:
        number = self._of_pod[decision.pod.key][-1]
        size = decision.size_bytes()
        self.bytes += size - self._by_number[number][1]
        self._by_number[number] = (decision, size)
        self._make_room()

    def _make_room(self) -> None:
        while self.bytes > self._max_bytes:
            self._drop(next(iter(self._by_number)))

    def _drop(self, number: int) -> None:
        decision, size = self._by_number.pop(number)
        self.bytes -= size
        numbers = self._of_pod[decision.pod.key]
        numbers.remove(number)
        if not numbers:
            del self._of_pod[decision.pod.key]
