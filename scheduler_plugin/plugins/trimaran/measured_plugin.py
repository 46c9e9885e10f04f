"""Base of Trimaran's plugins: columns, fallback levels, and scores cached for pods with equal requests and limits.

Recently placed pods: one that ran for `overlap` seconds of a window contributes overlap / window of its usage to the
mean, and less where the samples are rates over minutes. The rest of its predicted usage has to be added.
"""

from __future__ import annotations

import abc
import operator
from typing import Final

import numpy as np

from scheduler_plugin.framework import interface
from scheduler_plugin.framework.interface import PluginInputs, Scores
from scheduler_plugin.plugins.trimaran.args import Formula
from scheduler_plugin.plugins.trimaran.measurements import Measurements
from scheduler_plugin.plugins.trimaran.node_columns import RESOURCES, MeasurementColumns
from scheduler_plugin.state.node_columns import Columns, EquivalenceCache, Floats, Ints, NodeColumns, NodeEntry, Rows
from scheduler_plugin.state.pod_info import AssignedPod, PodInfo, PodResources

SHORTEST_WINDOW_SECONDS: Final = 60.0
"""Containers start some time after the pod was placed, so a shorter window is counted as this one."""
_SHIPPED_SECONDS: Final = 60.0


def unmeasured_share(placed_at: float, window_end: float, window_seconds: float, rate_seconds: float = 0.0) -> float:
    """Return the share, 0 to 1, that a window does not contain of a pod; 1 without a window (its end is -inf).

    A sample that is a rate over `rate_seconds` has seconds / rate_seconds of the usage of a pod that ran for less.
    """
    window_seconds = max(window_seconds, SHORTEST_WINDOW_SECONDS)
    age_seconds = min(window_end - placed_at, window_seconds + rate_seconds)
    measured_seconds = _sampled_seconds(age_seconds, rate_seconds) - _sampled_seconds(
        age_seconds - window_seconds, rate_seconds
    )
    return max(0.0, 1.0 - measured_seconds / window_seconds)


def _sampled_seconds(age_seconds: float, rate_seconds: float) -> float:
    """Integrate the share of a pod's usage that samples have, from its begin to an age."""
    if age_seconds >= rate_seconds:
        return age_seconds - rate_seconds / 2.0
    return age_seconds**2 / (2.0 * rate_seconds) if age_seconds > 0.0 else 0.0


def shipped_share(placed_at: float, window_end: float) -> float:
    """Return upstream's share: all of a pod placed less than 60 s before the end of the window, nothing of others."""
    return 1.0 if window_end - placed_at < _SHIPPED_SECONDS else 0.0


_CACHE_SECONDS: Final = 10.0
"""Lifetime of cached scores: a change of the fallback level, after five minutes, can take effect this much later."""


class MeasuredPlugin(Columns, abc.ABC):
    """Plugin that scores by measured load; an `interface.Scorer`."""

    name: str
    """Name in the configuration."""

    def __init__(self, formula: Formula, measurements: Measurements) -> None:
        self._formula = formula
        self._cache: EquivalenceCache[tuple[PodResources, float, tuple[bool, ...]]] = EquivalenceCache(
            lambda key, rows: self._compute(key[0], rows, key[1]), np.float64
        )
        """By resources, and what the fallback levels depend on beside the rows: time, and whether data is delivered."""
        self.columns = MeasurementColumns(measurements)

    def grow(self, capacity: int) -> None:
        """Grow all columns to `capacity` rows."""
        super().grow(capacity)
        self.columns.grow(capacity)

    def write(self, entry: NodeEntry) -> None:
        """Update the row of one node if any of its inputs changed."""
        if self.columns.write(entry):
            self._write_own(entry)

    def explain(self, pod: PodInfo, rows: Rows) -> PluginInputs:  # noqa: ARG002  # the same for every pod
        """Return the measurement of each candidate, the ends of its windows and its fallback levels."""
        return self.columns.explained(rows)

    def score(self, pod: PodInfo, rows: Rows, vectors: NodeColumns, now: float) -> Scores | None:  # noqa: ARG002  # see Scorer
        """Score each candidate; None for a pod with an unreadable spec."""
        demand = self._demand(pod)
        if demand is None:
            return None
        at = now // _CACHE_SECONDS * _CACHE_SECONDS
        return self._cache.results((demand, at, self.columns.delivered(at)), rows, self.columns)

    def normalize(self, scores: Scores) -> Ints:
        """Clip scores to 0..100; a plugin with another scale overrides this."""
        return interface.clipped(scores)

    def _demand(self, pod: PodInfo | AssignedPod) -> PodResources | None:
        """Return the resources that count of a pod; upstream counts native ones alone."""
        demand = pod.demand
        return demand if demand is None or self._formula == "upstream" else demand.by_class or demand

    def _unmeasured_shares(self, entry: NodeEntry, resource: int) -> list[float]:
        """Return the share of the predicted usage of each pod of the node that its measurement does not contain."""
        end = float(self.columns.window_end[resource, entry.row])
        placed = [pod.timestamp for pod in entry.load.pods.values()]
        if self._formula == "upstream":
            return [shipped_share(at, end) for at in placed]
        window_seconds = float(self.columns.window_seconds[resource, entry.row])
        rate_seconds = self.columns.rate_seconds(resource, entry.row)
        return [unmeasured_share(at, end, window_seconds, rate_seconds) for at in placed]

    def _recent_requests(self, entry: NodeEntry) -> list[float]:
        """Return the requests of CPU and of memory that the measurement of a node does not contain the usage of."""
        sums = []
        demands = [self._demand(pod) for pod in entry.load.pods.values()]
        for resource in range(len(RESOURCES)):
            requests = [demand.request[resource] if demand else 0 for demand in demands]
            sums.append(sum(map(operator.mul, requests, self._unmeasured_shares(entry, resource))))
        return sums

    @abc.abstractmethod
    def _write_own(self, entry: NodeEntry) -> None:
        """Update a row of the plugin's own columns; the row of `columns` is already up to date."""

    @abc.abstractmethod
    def _compute(self, demand: PodResources, rows: Rows, now: float) -> Floats:
        """Score rows for pods with these resources, in the plugin's own scale."""
