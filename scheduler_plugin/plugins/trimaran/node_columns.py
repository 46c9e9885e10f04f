"""What Trimaran's policies read of each node: measurements, capacity, and what its pods declare.

Axis 0 of two-dimensional columns is (cpu in milli-cores, memory in bytes), the last axis is the row.
"""

from __future__ import annotations

import math
import operator
from typing import Final

import numpy as np

from api_types import names
from api_types.kubernetes import pods, quantities
from scheduler_plugin.framework.interface import Explained
from scheduler_plugin.plugins.trimaran import fallback
from scheduler_plugin.plugins.trimaran.fallback import Rungs
from scheduler_plugin.plugins.trimaran.measurements import Measurements, Reading
from scheduler_plugin.state.node_columns import Bools, Floats, Ints, NodeEntry, RowChanges, Rows
from scheduler_plugin.state.pod_resources import Amounts

RESOURCES: Final = (names.CPU, names.MEMORY)
CPU: Final = 0
"""Its place among them."""
_NOBODY: Final = math.inf


class MeasurementColumns(RowChanges):
    """Columns over one set of rows."""

    def __init__(self, readings: Measurements) -> None:
        super().__init__()
        self._readings = readings
        self._asked_at = 0.0
        self._capacities: dict[int, tuple[pods.Node | None, tuple[int, int]]] = {}
        """By row: the node object and what it says; parsed again only when the object changes."""
        self._written: dict[int, tuple[NodeEntry, pods.Node | None, Reading | None, int]] = {}
        """By row: what its columns were made of."""
        self.capacity: Floats = np.zeros((2, 0))
        self.allocatable: Floats = np.zeros((2, 0))
        self.mean_percent: Floats = np.zeros((2, 0))
        self.deviation_percent: Floats = np.zeros((2, 0))
        self.is_valid: Bools = np.zeros((2, 0), dtype=np.bool_)
        self.packing_percent: Floats = np.zeros(0)
        self.power_percent: Floats = np.zeros(0)
        self.is_read: Bools = np.zeros(0, dtype=np.bool_)
        self.window_end: Floats = np.zeros(0)
        self.oldest_pod_at: Floats = np.zeros(0)
        self.requested: Floats = np.zeros((2, 0))
        self.provider: Ints = np.zeros(0, dtype=np.int64)
        """Which provider a reading is from: an index in `providers`."""
        self.providers: list[str] = [""]
        """Names seen so far, the first of a reading's source; 0 stands for no reading."""

    def write(self, entry: NodeEntry) -> bool:
        """Bring one node's row up to date; False where nothing changed that is read here (a report alone does not)."""
        row = entry.row
        state = (entry, entry.node, self._readings.of(entry.name), entry.load.pods_version)
        known = self._written.get(row)
        if known is not None and known[3] == state[3] and all(map(operator.is_, known[:3], state[:3])):
            return False
        self._written[row] = state
        self.changed(row)
        self.capacity[:, row] = self._capacity(entry)
        self.allocatable[:, row] = [entry.allocatable.get(name, 0) for name in RESOURCES]
        self._write_reading(row, state[2])
        placed = entry.load.pods.values()
        self.oldest_pod_at[row] = min((pod.timestamp for pod in placed), default=_NOBODY)
        self.requested[:, row] = summed([pod.demand.request for pod in placed if pod.demand is not None])
        return True

    def rungs(self, rows: Rows | slice, now: float) -> Rungs:
        """What each candidate is judged by."""
        self._asked_at = now
        read = self._readings
        return fallback.rungs(
            self.window_end[rows], self.oldest_pod_at[rows], read.newest_end, now, read.oldest_seconds
        )

    def explained(self, rows: Rows) -> Explained:
        """Copy what decisions read: percent of capacity, requests, end of the window, rung at the last call."""
        return Explained(
            RESOURCES,
            {
                "meanPercent": self.mean_percent.take(rows, axis=1),
                "deviationPercent": self.deviation_percent.take(rows, axis=1),
                "requested": self.requested.take(rows, axis=1),
                "windowEnd": self.window_end.take(rows),
                "rung": self.rungs(rows, self._asked_at).astype(np.int64),
            },
        )

    def best_fit(self, rows: Rows | slice, request: Amounts) -> Floats:
        """Score of each candidate by requests alone, the pod's among them."""
        return fallback.best_fit(self.requested[:, rows] + of_amounts(request), self.allocatable[:, rows])

    def _write_reading(self, row: int, reading: Reading | None) -> None:
        self.is_read[row] = reading is not None
        if reading is None:
            self.window_end[row] = -math.inf
            self.packing_percent[row] = self.power_percent[row] = math.nan
            self.is_valid[:, row] = False
            self.mean_percent[:, row] = self.deviation_percent[:, row] = 0.0
            self.provider[row] = 0
            return
        self.provider[row] = self._provider(reading.source.partition(",")[0])
        self.window_end[row] = reading.end
        self.packing_percent[row] = reading.packing_percent
        self.power_percent[row] = reading.power_percent
        for index, of in enumerate((reading.cpu, reading.memory)):
            self.is_valid[index, row] = of.is_valid
            self.mean_percent[index, row] = of.mean
            self.deviation_percent[index, row] = of.deviation

    def _provider(self, name: str) -> int:
        if name not in self.providers:
            self.providers.append(name)
        return self.providers.index(name)

    def _capacity(self, entry: NodeEntry) -> tuple[int, int]:
        known = self._capacities.get(entry.row)
        if known is None or known[0] is not entry.node:
            known = self._capacities[entry.row] = (entry.node, _capacity(entry.node))
        return known[1]


def of_amounts(amounts: Amounts) -> Floats:
    """CPU and memory as one column, shape (2, 1)."""
    return np.array([amounts], dtype=np.float64).T


def summed(amounts: list[Amounts]) -> tuple[int, int]:
    """Sum of CPU and of memory."""
    return sum(each.cpu_millis for each in amounts), sum(each.memory_bytes for each in amounts)


def _capacity(node: pods.Node | None) -> tuple[int, int]:
    try:
        units = pods.units(node.status.capacity) if node else {}
    except quantities.InvalidQuantity:
        units = {}
    return units.get(names.CPU, 0), units.get(names.MEMORY, 0)
