"""Decide where nodes with expired reports pass: this process does not see them, or a release of the agent stopped them.

A release may reach the agents of one pool alone, and pods that are bound to it would find no node. Labels bind them, by
a selector or an affinity, so the nodes with any label in common count as a pool. Nodes without a report have no agent.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Final, NamedTuple

import numpy as np

from scheduler_plugin.state.node_columns import Bools, Rows

SILENT_SECONDS: Final = 90.0
"""The apiserver sends a bookmark about once a minute, so a working watch is never silent for so long."""
_FEWEST_EXPIRED: Final = 2
"""In a pool: many labels belong to one node, whose agent alone may have failed."""


class Blindness(NamedTuple):
    """Where expired reports count as unseen."""

    cause: str
    """In words; empty where reports expire for a reason of their own."""
    rows: Bools
    """Nodes that pass with an expired report."""


class _Members(NamedTuple):
    """One entry for each label of each node."""

    rows: Rows
    pools: Rows
    labels: list[str]
    """By number of the pool."""


class NodePools:
    """Nodes by their labels."""

    def __init__(self) -> None:
        self._labels: dict[int, tuple[str, ...]] = {}
        """By row."""
        self._listed: _Members | None = None

    def put(self, row: int, name: str, labels: Mapping[str, str]) -> None:
        """Store the labels of a node, except those that name it."""
        shared = tuple(sys.intern(f"{key}={value}") for key, value in labels.items() if value != name)
        if self._labels.get(row) != shared:
            self._labels[row] = shared
            self._listed = None

    def remove(self, row: int) -> None:
        """Drop a node."""
        if self._labels.pop(row, None) is not None:
            self._listed = None

    def blindness(self, silent_seconds: float | None, has_report: Bools, is_expired: Bools) -> Blindness:
        """Return where more than half of the reports of all nodes, or of a pool, expired.

        `silent_seconds` is the age of the last event of the watch of NodeMetrics; the arrays have one entry per row.
        """
        if silent_seconds is not None and silent_seconds > SILENT_SECONDS:
            cause = (
                f"the watch of NodeMetrics is silent for {silent_seconds:.0f} s, want an event or bookmark at least "
                f"every {SILENT_SECONDS:.0f} s: check the apiserver, and this ServiceAccount's right to watch "
                "nodemetrics"
            )
            return Blindness(cause, np.ones(len(is_expired), dtype=np.bool_))
        expired, reports = int(np.count_nonzero(is_expired)), int(np.count_nonzero(has_report))
        if 2 * expired > reports:
            return Blindness(_cause(expired, reports, ""), np.ones(len(is_expired), dtype=np.bool_))
        if expired < _FEWEST_EXPIRED:
            return Blindness("", np.zeros(len(is_expired), dtype=np.bool_))
        return self._of_pools(has_report, is_expired)

    def _of_pools(self, has_report: Bools, is_expired: Bools) -> Blindness:
        members = self._members()
        expired, reports = (
            np.bincount(members.pools[by_row[members.rows]], minlength=len(members.labels))
            for by_row in (is_expired, has_report)
        )
        is_blind = (expired >= _FEWEST_EXPIRED) & (2 * expired > reports)
        rows = np.zeros(len(is_expired), dtype=np.bool_)
        rows[members.rows[is_blind[members.pools]]] = True
        if not is_blind.any():
            return Blindness("", rows)
        largest = int(np.where(is_blind, expired, 0).argmax())
        where = f" with label {members.labels[largest]}"
        return Blindness(_cause(int(expired[largest]), int(reports[largest]), where), rows)

    def _members(self) -> _Members:
        if self._listed is None:
            numbers: dict[str, int] = {}
            rows: list[int] = []
            pools: list[int] = []
            for row, labels in self._labels.items():
                for label in labels:
                    rows.append(row)
                    pools.append(numbers.setdefault(label, len(numbers)))
            self._listed = _Members(np.array(rows, dtype=np.intp), np.array(pools, dtype=np.intp), list(numbers))
        return self._listed


def _cause(expired: int, reports: int, where: str) -> str:
    return (
        f"the reports of {expired} of {reports} nodes{where} expired, want at most half: check the koordlet DaemonSet"
    )
