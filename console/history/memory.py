"""The last 24 hours of each node and of the fleet, in memory: one value a minute for two hours, then one in five. Pure.

A restart loses it. Memory is bounded by MOST_NODES: 8 kB a node, as 16-bit floats, which have three digits.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fleet.node_state import Amounts, NodeState
from fleet.pod_state import total

SERIES: Final = ("used", "prod_used", "prod_peak", "mid", "mid_requests")
"""Series of a node: CPU in cores, then memory in GiB."""
MOST_NODES: Final = 5_000
"""Nodes that have a history; of more, only the fleet has one."""
_RESOURCES: Final = ("cpu", "memory")
_UNITS: Final = (1000.0, float(2**30))
_WIDTH: Final = len(SERIES) * len(_RESOURCES)
_FLEET: Final = 0
_FIRST_ROWS: Final = 16


class HistoryPoint(NamedTuple):
    """Values of one time; each is None where it was not known."""

    time_seconds: int
    values: tuple[float | None, ...]


class _ValueRing:
    """One value of each series in each step; `values` is (rows, slots, series)."""

    def __init__(self, step_seconds: int, slots: int, kind: type[np.floating[Any]]) -> None:
        self.step_seconds = step_seconds
        self._slots = slots
        self._kind = kind
        self._steps = np.full(slots, -1, np.int64)
        """Step that each slot holds."""
        self._values: NDArray[Any] = np.empty((0, slots, _WIDTH), kind)

    def write(self, time_seconds: float, rows: Sequence[int], values: NDArray[np.float64], most_rows: int) -> None:
        """Write the values of some rows; the others have none in this step."""
        if most_rows > len(self._values):
            more = max(most_rows, 2 * len(self._values), _FIRST_ROWS) - len(self._values)
            added = np.full((more, self._slots, _WIDTH), np.nan, self._kind)
            self._values = np.concatenate([self._values, added])
        step = int(time_seconds) // self.step_seconds
        slot = step % self._slots
        if self._steps[slot] != step:
            self._values[:, slot] = np.nan
            self._steps[slot] = step
        self._values[rows, slot] = values

    def clear(self, row: int) -> None:
        """Forget the values of a row."""
        if row < len(self._values):
            self._values[row] = np.nan

    def points(self, row: int, offset: int) -> Iterator[HistoryPoint]:
        """Yield the points of a row, the oldest first."""
        if row >= len(self._values):
            return
        newest = int(self._steps.max(initial=-1))
        for step in range(max(newest - self._slots + 1, 0), newest + 1):
            slot = step % self._slots
            if self._steps[slot] != step:
                continue
            values = self._values[row, slot, offset : offset + len(SERIES)]
            if not np.isnan(values).all():
                amounts = tuple(None if np.isnan(value) else float(value) for value in values)
                yield HistoryPoint(step * self.step_seconds, amounts)


class History:
    """History of the fleet and of up to MOST_NODES nodes."""

    def __init__(self, most_nodes: int = MOST_NODES) -> None:
        self._most_nodes = most_nodes
        self._rows: dict[str, int] = {}
        self._free: list[int] = []
        self._of_nodes = (_ValueRing(60, 120, np.float16), _ValueRing(300, 288, np.float16))
        self._of_fleet = (_ValueRing(60, 120, np.float64), _ValueRing(300, 288, np.float64))

    def record(self, time_seconds: float, nodes: Sequence[NodeState]) -> None:
        """Record a snapshot of all nodes. A node that is gone is forgotten."""
        present = {node.name for node in nodes}
        for name in [name for name in self._rows if name not in present]:
            row = self._rows.pop(name)
            self._free.append(row)
            for ring in self._of_nodes:
                ring.clear(row)
        recorded = [node for node in nodes if self._row(node.name) is not None]
        values = np.array([_values(getattr(node, name) for name in SERIES) for node in recorded]).reshape(-1, _WIDTH)
        rows = [self._rows[node.name] for node in recorded]
        for ring in self._of_nodes:
            ring.write(time_seconds, rows, values, len(self._rows) + len(self._free))
        sums = np.array([_values(total(getattr(node, name) for node in nodes) for name in SERIES)])
        for ring in self._of_fleet:
            ring.write(time_seconds, [_FLEET], sums, 1)

    def _row(self, name: str) -> int | None:
        if name not in self._rows:
            if not self._free and len(self._rows) >= self._most_nodes:
                return None
            self._rows[name] = self._free.pop() if self._free else len(self._rows)
        return self._rows[name]

    def fleet_points(self, resource: str) -> list[HistoryPoint]:
        """Return the sums over all nodes, the oldest first."""
        return _joined(self._of_fleet, _FLEET, resource)

    def node_points(self, name: str, resource: str) -> list[HistoryPoint]:
        """Return the points of a node, the oldest first; none for a node without a history."""
        row = self._rows.get(name)
        return [] if row is None else _joined(self._of_nodes, row, resource)


def _joined(rings: tuple[_ValueRing, _ValueRing], row: int, resource: str) -> list[HistoryPoint]:
    """Return the points of each minute, and before them those of each five minutes."""
    fine, coarse = rings
    offset = _RESOURCES.index(resource) * len(SERIES)
    minutes = list(fine.points(row, offset))
    begin = minutes[0].time_seconds if minutes else float("inf")
    older = [point for point in coarse.points(row, offset) if point.time_seconds + coarse.step_seconds <= begin]
    return [*older, *minutes]


def _values(series: Iterable[Amounts]) -> list[float]:
    """Return CPU in cores, then memory in GiB; NaN for what is not known."""
    amounts = list(series)
    return [
        float("nan") if (value := getattr(amount, resource)) is None else value / unit
        for resource, unit in zip(_RESOURCES, _UNITS, strict=True)
        for amount in amounts
    ]
