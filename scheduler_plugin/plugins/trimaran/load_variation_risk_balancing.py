"""LoadVariationRiskBalancing: prefer nodes whose mean load and its variation are low together (KEP-61)."""

from __future__ import annotations

from typing import Final

import numpy as np

from scheduler_plugin.cluster_state.node_vectors import Floats, Ints, NodeEntry, NodeVectors, Rows, grown
from scheduler_plugin.cluster_state.pod_demand import Amounts
from scheduler_plugin.cluster_state.pod_facts import PodFacts
from scheduler_plugin.plugins import policy
from scheduler_plugin.plugins.kept_answers import KeptAnswers
from scheduler_plugin.plugins.policy import Explained, Scores
from scheduler_plugin.plugins.trimaran import node_columns
from scheduler_plugin.plugins.trimaran.args import LoadVariationRiskBalancingArgs
from scheduler_plugin.plugins.trimaran.formulas import load_variation
from scheduler_plugin.plugins.trimaran.ladder import Rung, Rungs
from scheduler_plugin.plugins.trimaran.node_columns import NodeColumns, ScoringClass
from scheduler_plugin.plugins.trimaran.readings import Readings

UNMEASURED_SECONDS: Final = 60.0
"""As TargetLoadPacking's."""


class LoadVariationRiskBalancing:
    """The policy; scores only."""

    name = "LoadVariationRiskBalancing"

    def __init__(self, args: LoadVariationRiskBalancingArgs, readings: Readings) -> None:
        self._formula = args.formula
        self._margin = float(args.safe_variance_margin or 0.0)
        self._sensitivity = float(args.safe_variance_sensitivity or 0.0)
        self._kept = KeptAnswers(self._compute)
        self.columns = NodeColumns(readings)
        self._recent: Floats = np.zeros((2, 0))
        """Requests of pods that the newest measurement cannot contain."""

    def grow(self, capacity: int) -> None:
        """Make room for `capacity` rows."""
        self.columns.grow(capacity)
        self._recent = grown(self._recent, capacity)

    def write(self, entry: NodeEntry) -> None:
        """Bring one node's row up to date."""
        if not self.columns.write(entry):
            return
        end = self.columns.window_end[entry.row]
        self._recent[:, entry.row] = node_columns.summed(
            [
                pod.demand.request
                for pod in entry.load.pods.values()
                if pod.demand is not None and end - pod.timestamp < UNMEASURED_SECONDS
            ]
        )

    def rungs(self, rows: Rows, now: float) -> Rungs:
        """What each candidate is judged by."""
        return self.columns.rungs(rows, now)

    def explain(self, pod: PodFacts, rows: Rows) -> Explained:  # noqa: ARG002  # the same for every pod
        """What was measured of each candidate, until when, and on which rung that leaves it."""
        return self.columns.explained(rows)

    def score(self, pod: PodFacts, rows: Rows, vectors: NodeVectors, now: float) -> Scores | None:  # noqa: ARG002  # see Policy
        """0..100 by the worse of CPU and memory."""
        if pod.demand is None:
            return None
        kept = self._kept.of(node_columns.scoring_class(pod.demand, now), self.columns, self.columns.never, now)
        scores: Floats = kept[rows]
        return scores

    def _compute(self, of: ScoringClass, rows: Rows | slice, now: float) -> Floats:
        columns, demand = self.columns, of.demand
        if self._formula == "upstream":
            total = columns.allocatable[:, rows]
            scores = self._resource_scores(rows, total, _column(demand.shipped_request))
            return load_variation.score(scores, columns.is_valid[:, rows])
        request = _column(demand.request)
        measured = self._resource_scores(rows, columns.capacity[:, rows], request + self._recent[:, rows])
        rungs = columns.rungs(rows, now)
        return np.select(
            [rungs == Rung.MEASURED, rungs == Rung.PREDICTED, rungs == Rung.BY_REQUESTS],
            [
                load_variation.score(measured, columns.is_valid[:, rows]),
                self._by_requests(rows, request),
                columns.best_fit(rows, demand.request),
            ],
            default=0.0,
        )

    def normalize(self, scores: Scores) -> Ints:
        """Scores are 0..100 already."""
        return policy.clipped(scores)

    def _resource_scores(self, rows: Rows | slice, percent_of: Floats, request: Floats) -> Floats:
        """Of each resource and candidate; percentages are of `percent_of`, fractions of allocatable."""
        columns = self.columns
        total = columns.allocatable[:, rows]
        mean, deviation = (
            np.clip(load_variation.used(percents[:, rows], percent_of), 0.0, total)
            for percents in (columns.mean_percent, columns.deviation_percent)
        )
        if self._formula == "kep":
            of = load_variation.fractions(mean, deviation, 0.0, total)
            with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
                share = np.where(total > 0.0, request / total, 1.0)
            return load_variation.designed_resource_scores(of, share, self._margin)
        of = load_variation.fractions(mean, deviation, np.maximum(request, 0.0), total)
        return load_variation.shipped_resource_scores(of, total, self._margin, self._sensitivity)

    def _by_requests(self, rows: Rows | slice, request: Floats) -> Floats:
        """Of a node whose pods are all new: their requests for the mean, and no deviation."""
        total = self.columns.allocatable[:, rows]
        nothing = np.zeros(total.shape)
        of = load_variation.fractions(nothing, nothing, self.columns.requested[:, rows] + request, total)
        scores = load_variation.shipped_resource_scores(of, total, self._margin, self._sensitivity)
        return load_variation.score(scores, np.ones(total.shape, dtype=np.bool_))


def _column(amounts: Amounts) -> Floats:
    return np.array([amounts], dtype=np.float64).T
