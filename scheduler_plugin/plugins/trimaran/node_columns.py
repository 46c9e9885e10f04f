"""Columns that Trimaran's plugins read: measurements, capacity, and the requests and limits of pods, for each node.

Axis 0 of two-dimensional columns is (cpu in milli-cores, memory in bytes), the last axis is the row.

The fallback level is the data that a plugin uses for a resource of a node without a fresh measurement (KEP-61); CPU and
memory have their own. A plugin that needs both resources scores a node lowest if either is UNKNOWN, by best fit if both
are BY_REQUESTS, and otherwise uses requests in place of the resource that is not measured. Formula `upstream` has no
fallback levels: a node without measurements scores 0, and measurements have no age limit.
"""

from __future__ import annotations

import enum
import math
import operator
from typing import Final

import numpy as np
import numpy.typing as npt

from api_types import names
from api_types.colocation import node_reservation
from api_types.kubernetes import pods, quantities
from scheduler_plugin.framework.interface import PluginInputs
from scheduler_plugin.plugins.trimaran.measurements import Measurements, NodeUtilization
from scheduler_plugin.state.node_columns import Bools, Floats, Ints, NodeEntry, RowChanges, Rows
from scheduler_plugin.state.pod_info import PodAmounts


class FallbackLevel(enum.IntEnum):
    """Data that a plugin uses for a node; the first level whose condition holds counts."""

    MEASURED = 0
    """A window that ended within the age limit has the resource: it counts, and the pods since."""
    BY_REQUESTS = 1
    """No node has such a window, because every provider fails: requests, as best fit."""
    PREDICTED = 2
    """Every pod of the node is younger than the limit, so it is new or was emptied: the predicted usage of its pods."""
    UNKNOWN = 3
    """Older pods run there without a measurement, or its values were dropped: the lowest score."""


FallbackLevels = npt.NDArray[np.int8]


def combine_resources(levels: FallbackLevels, scores: Floats, without_providers: Floats) -> Floats:
    """Return the score of each node for a plugin that needs both resources, shape (nodes,).

    `scores`: with requests in place of a resource that is not measured; `without_providers`: if no node is measured.
    """
    is_unknown = (levels == FallbackLevel.UNKNOWN).any(axis=0)
    has_no_provider = (levels == FallbackLevel.BY_REQUESTS).all(axis=0)
    return np.select([is_unknown, has_no_provider], [np.zeros(scores.shape), without_providers], default=scores)


RESOURCES: Final = (names.CPU, names.MEMORY)
CPU: Final = 0
"""Index of CPU in RESOURCES."""
_NO_POD: Final = math.inf


class MeasurementColumns(RowChanges):
    """Columns with one row for each node."""

    def __init__(self, measurements: Measurements) -> None:
        super().__init__()
        self._measurements = measurements
        self._evaluated_at = 0.0
        self._written: dict[int, tuple[NodeEntry, pods.Node | None, NodeUtilization | None, int]] = {}
        """Row -> inputs of its columns."""
        self.capacity: Floats = np.zeros((2, 0))
        self.allocatable: Floats = np.zeros((2, 0))
        self.mean_percent: Floats = np.zeros((2, 0))
        self.deviation_percent: Floats = np.zeros((2, 0))
        self.is_valid: Bools = np.zeros((2, 0), dtype=np.bool_)
        """Whether there is any record of the resource, as formula `upstream` asks; see `fallback_levels` for others."""
        self.is_rejected: Bools = np.zeros((2, 0), dtype=np.bool_)
        self.packing_percent: Floats = np.zeros(0)
        self.power_percent: Floats = np.zeros(0)
        self.has_measurement: Bools = np.zeros(0, dtype=np.bool_)
        self.window_end: Floats = np.zeros((2, 0))
        self.window_seconds: Floats = np.zeros((2, 0))
        self.oldest_pod_at: Floats = np.zeros(0)
        self.requested: Floats = np.zeros((2, 0))
        self.provider: Ints = np.zeros((2, 0), dtype=np.int64)
        """Provider of the measurement: an index in `providers`."""
        self.providers: list[str] = [""]
        """Names of the providers seen so far, the first of each measurement's source; index 0 means no measurement."""

    def write(self, entry: NodeEntry) -> bool:
        """Update the row of one node; return False if none of its inputs changed (a report alone is not an input)."""
        row = entry.row
        state = (entry, entry.node, self._measurements.find(entry.name), entry.load.pods_version)
        written = self._written.get(row)
        if written is not None and written[3] == state[3] and all(map(operator.is_, written[:3], state[:3])):
            return False
        self._written[row] = state
        self.changed(row)
        if written is None or written[1] is not entry.node:
            self.capacity[:, row] = _capacity(entry.node)
        self.allocatable[:, row] = [entry.allocatable.get(name, 0) for name in RESOURCES]
        self._write_measurement(row, state[2])
        placed = entry.load.pods.values()
        self.oldest_pod_at[row] = min((pod.timestamp for pod in placed), default=_NO_POD)
        demands = [pod.demand.by_class or pod.demand for pod in placed if pod.demand is not None]
        self.requested[:, row] = summed([demand.request for demand in demands])
        return True

    def fallback_levels(self, rows: Rows, now: float) -> FallbackLevels:
        """Return the fallback level of each resource of each candidate, shape (resources, candidates)."""
        self._evaluated_at = now
        oldest_seconds = self._measurements.oldest_seconds
        is_measured = now - self.window_end[:, rows] <= oldest_seconds
        is_delivered = np.array(self.delivered(now))[:, np.newaxis]
        is_new = (now - self.oldest_pod_at[rows] <= oldest_seconds) & ~self.is_rejected[:, rows]
        unmeasured = np.where(is_new, FallbackLevel.PREDICTED, FallbackLevel.UNKNOWN)
        delivered = np.where(is_measured, FallbackLevel.MEASURED, unmeasured)
        # Of the first data after an outage, the rows are not compared with each other before all of them are written.
        return np.where(is_delivered, delivered, FallbackLevel.BY_REQUESTS).astype(np.int8)

    def delivered(self, now: float) -> tuple[bool, ...]:
        """Return whether any node has a fresh measurement of each resource: on it the level of every row depends."""
        return tuple(now - end <= self._measurements.oldest_seconds for end in self._measurements.newest_ends)

    def rate_seconds(self, resource: int, row: int) -> float:
        """Return the seconds over which each sample of the measurement is averaged; those of memory are of a moment."""
        return self._measurements.rate_seconds.get(self.providers[self.provider[resource, row]], 0.0) * (
            resource == CPU
        )

    def explained(self, rows: Rows) -> PluginInputs:
        """Copy the columns that decisions record, with the fallback level at the last evaluation as "fallbackLevel"."""
        columns = {
            "meanPercent": self.mean_percent,
            "deviationPercent": self.deviation_percent,
            "requested": self.requested,
            "windowEnd": self.window_end,
        }
        levels = self.fallback_levels(rows, self._evaluated_at).astype(np.int64)
        taken = {name: column.take(rows, axis=1) for name, column in columns.items()}
        return PluginInputs(RESOURCES, {**taken, "fallbackLevel": levels})

    def best_fit(self, rows: Rows, request: PodAmounts) -> Floats:
        """Score each candidate by the percentage that requests, with the pod's, take of its fullest resource.

        The fullest node with enough room is best; a node that would be overcommitted scores 0.
        """
        requested, allocatable = self.requested[:, rows] + amount_column(request), self.allocatable[:, rows]
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            share = np.where(allocatable > 0.0, requested / allocatable, np.inf).max(axis=0)
        return np.where(share <= 1.0, np.floor(share * 100.0), 0.0)

    def _write_measurement(self, row: int, measurement: NodeUtilization | None) -> None:
        self.has_measurement[row] = measurement is not None
        if measurement is None:
            self.window_end[:, row], self.window_seconds[:, row] = -math.inf, 0.0
            self.packing_percent[row] = self.power_percent[row] = math.nan
            self.is_valid[:, row] = self.is_rejected[:, row] = False
            self.mean_percent[:, row] = self.deviation_percent[:, row] = 0.0
            self.provider[:, row] = 0
            return
        self.packing_percent[row] = measurement.packing_percent
        self.power_percent[row] = measurement.power_percent
        for index, of in enumerate((measurement.cpu, measurement.memory)):
            self.window_end[index, row], self.window_seconds[index, row] = of.end, of.window_seconds
            self.is_valid[index, row], self.is_rejected[index, row] = of.is_valid, of.is_rejected
            self.provider[index, row] = self._provider(of.source.partition(",")[0])
            self.mean_percent[index, row] = of.mean
            self.deviation_percent[index, row] = of.deviation

    def _provider(self, name: str) -> int:
        if name not in self.providers:
            self.providers.append(name)
        return self.providers.index(name)


def amount_column(amounts: PodAmounts) -> Floats:
    """Return CPU and memory as one column, shape (2, 1)."""
    return np.array([amounts], dtype=np.float64).T


def summed(amounts: list[PodAmounts]) -> tuple[int, int]:
    """Return the sums of CPU and of memory."""
    return sum(pod.cpu_millis for pod in amounts), sum(pod.memory_bytes for pod in amounts)


def _capacity(node: pods.Node | None) -> tuple[int, int]:
    try:
        units = node_reservation.capacity(node) if node else {}
    except quantities.InvalidQuantity:
        units = {}
    return units.get(names.CPU, 0), units.get(names.MEMORY, 0)
