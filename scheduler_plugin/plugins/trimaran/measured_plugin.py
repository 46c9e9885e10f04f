"""What Trimaran's policies have in common: columns, the ladder, and scores kept for pods that declare the same."""

from __future__ import annotations

import abc
import math
from typing import Final, NamedTuple

import numpy as np

from scheduler_plugin.framework import interface
from scheduler_plugin.framework.equivalence_cache import EquivalenceCache
from scheduler_plugin.framework.interface import Explained, Scores
from scheduler_plugin.plugins.trimaran.args import Formula
from scheduler_plugin.plugins.trimaran.fallback import Rungs
from scheduler_plugin.plugins.trimaran.measurements import Measurements
from scheduler_plugin.plugins.trimaran.node_columns import MeasurementColumns
from scheduler_plugin.state.node_columns import Floats, Ints, NodeColumns, NodeEntry, Rows
from scheduler_plugin.state.pod_info import PodInfo
from scheduler_plugin.state.pod_resources import PodResources

UNMEASURED_SECONDS: Final = 60.0
"""A pod placed later than this before the end of a window is not in its measurement yet."""
_KEPT_SECONDS: Final = 10.0
"""For how long scores are kept: a step of the ladder, after five minutes, may be seen so much later."""


class ScoringClass(NamedTuple):
    """Pods that get the same scores: all that these depend on beside the columns."""

    demand: PodResources
    period: int
    """Of _KEPT_SECONDS since the epoch: what a node is judged by depends on the time."""


class MeasuredPlugin(abc.ABC):
    """A policy that scores by what the load watcher tells; a `policy.Scorer` and `policy.Explainer`."""

    name: str
    """Name in the configuration."""

    def __init__(self, formula: Formula, readings: Measurements) -> None:
        self._formula = formula
        self._kept = EquivalenceCache(self._compute)
        self._never: Floats = np.zeros(0)
        """When a kept score of a row becomes wrong by itself: none is kept for longer than its period."""
        self.columns = MeasurementColumns(readings)

    def grow(self, capacity: int) -> None:
        """Make room for `capacity` rows; a policy that has columns of its own grows them too."""
        self.columns.grow(capacity)
        self._never = np.full(capacity, math.inf)

    def write(self, entry: NodeEntry) -> None:
        """Bring one node's row up to date, where anything changed that is read here."""
        if self.columns.write(entry):
            self._write_own(entry)

    def rungs(self, rows: Rows, now: float) -> Rungs:
        """What each candidate is judged by."""
        return self.columns.rungs(rows, now)

    def explain(self, pod: PodInfo, rows: Rows) -> Explained:  # noqa: ARG002  # the same for every pod
        """What was measured of each candidate, until when, and on which rung that leaves it."""
        return self.columns.explained(rows)

    def score(self, pod: PodInfo, rows: Rows, vectors: NodeColumns, now: float) -> Scores | None:  # noqa: ARG002  # see Scorer
        """Score each candidate; None for a pod whose spec cannot be read."""
        if pod.demand is None:
            return None
        own = ScoringClass(pod.demand, int(now // _KEPT_SECONDS))
        kept = self._kept.of(own, self.columns, self._never, now)
        scores: Floats = kept[rows]
        return scores

    def normalize(self, scores: Scores) -> Ints:
        """Scores are 0..100 already, unless a policy says otherwise."""
        return interface.clipped(scores)

    @abc.abstractmethod
    def _write_own(self, entry: NodeEntry) -> None:
        """Bring a row of the policy's own columns up to date; that of `columns` is."""

    @abc.abstractmethod
    def _compute(self, of: ScoringClass, rows: Rows | slice, now: float) -> Floats:
        """Score rows for a class of pods, in the policy's own scale."""
