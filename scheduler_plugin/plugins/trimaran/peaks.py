"""Peaks: place a pod where it raises the power drawn the least (reference trimaran section 7).

Utilisation is of the machine's capacity in every formula: that is what a power model was fitted to.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from scheduler_plugin.cluster_state.node_vectors import Floats, Ints, NodeEntry, NodeVectors, Rows, grown
from scheduler_plugin.cluster_state.pod_facts import PodFacts
from scheduler_plugin.plugins import policy
from scheduler_plugin.plugins.kept_answers import KeptAnswers
from scheduler_plugin.plugins.policy import Explained, Scores
from scheduler_plugin.plugins.trimaran import node_columns
from scheduler_plugin.plugins.trimaran.args import PeaksArgs, PowerModel
from scheduler_plugin.plugins.trimaran.formulas import power
from scheduler_plugin.plugins.trimaran.ladder import Rung, Rungs
from scheduler_plugin.plugins.trimaran.node_columns import NodeColumns, ScoringClass
from scheduler_plugin.plugins.trimaran.readings import Readings

_NO_MODEL: Final = PowerModel()
_SHIPPED_SCALE: Final = 1e15
_CPU: Final = 0


class Peaks:
    """The policy; scores only. A node without model or measurement is not scored, which is the lowest score."""

    name = "Peaks"

    def __init__(self, args: PeaksArgs, readings: Readings) -> None:
        self._formula = args.formula
        self._models = args.node_power_model or {}
        self._kept = KeptAnswers(self._compute)
        self.columns = NodeColumns(readings)
        self._k: Floats = np.zeros((2, 0))
        """k1 and k2; k0 cancels out."""

    def grow(self, capacity: int) -> None:
        """Make room for `capacity` rows."""
        self.columns.grow(capacity)
        self._k = grown(self._k, capacity)

    def write(self, entry: NodeEntry) -> None:
        """Bring one node's row up to date."""
        if not self.columns.write(entry):
            return
        model = self._models.get(entry.name, _NO_MODEL)
        self._k[:, entry.row] = (model.k1, model.k2)

    def rungs(self, rows: Rows, now: float) -> Rungs:
        """What each candidate is judged by."""
        return self.columns.rungs(rows, now)

    def explain(self, pod: PodFacts, rows: Rows) -> Explained:  # noqa: ARG002  # the same for every pod
        """What was measured of each candidate, until when, and on which rung that leaves it."""
        return self.columns.explained(rows)

    def score(self, pod: PodFacts, rows: Rows, vectors: NodeVectors, now: float) -> Scores | None:  # noqa: ARG002  # see Policy
        """Rise of the power in watts, NaN where it is not known; as shipped: scaled to integers, 0 where not known."""
        if pod.demand is None:
            return None
        kept = self._kept.of(node_columns.scoring_class(pod.demand, now), self.columns, self.columns.never, now)
        scores: Floats = kept[rows]
        return scores

    def _compute(self, of: ScoringClass, rows: Rows | slice, now: float) -> Floats:
        columns = self.columns
        capacity, percent = columns.capacity[_CPU, rows], columns.power_percent[rows]
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            after = 100.0 * ((percent / 100.0) * capacity + of.demand.request.cpu_millis) / capacity
        k1, k2 = self._k[:, rows]
        jumps = power.jump_watts(percent, after, k1, k2)
        is_known = (after <= 100.0) & np.isfinite(jumps)
        if self._formula == "upstream":
            return np.where(is_known, np.trunc(jumps * _SHIPPED_SCALE), 0.0)
        is_known &= ((k1 != 0.0) | (k2 != 0.0)) & (columns.rungs(rows, now) == Rung.MEASURED)
        return np.where(is_known, jumps, np.nan)

    def normalize(self, scores: Scores) -> Ints:
        """The smallest rise is best."""
        if self._formula == "upstream":
            return policy.clipped(power.shipped_scores(np.asarray(scores, dtype=np.float64)))
        return policy.clipped(power.score(np.asarray(scores, dtype=np.float64), np.isfinite(scores)))
