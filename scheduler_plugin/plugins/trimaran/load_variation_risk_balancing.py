"""LoadVariationRiskBalancing: prefer nodes with a low sum of mean load and its deviation (KEP-61)."""

from __future__ import annotations

import numpy as np

from scheduler_plugin.plugins.trimaran import fallback, node_columns
from scheduler_plugin.plugins.trimaran.args import LoadVariationRiskBalancingArgs
from scheduler_plugin.plugins.trimaran.fallback import FallbackLevel
from scheduler_plugin.plugins.trimaran.formulas import load_variation
from scheduler_plugin.plugins.trimaran.measured_plugin import MeasuredPlugin, ScoringClass
from scheduler_plugin.plugins.trimaran.measurements import Measurements
from scheduler_plugin.state.node_columns import Floats, NodeEntry, Rows, grown


class LoadVariationRiskBalancing(MeasuredPlugin):
    """Score plugin."""

    name = "LoadVariationRiskBalancing"

    def __init__(self, args: LoadVariationRiskBalancingArgs, measurements: Measurements) -> None:
        super().__init__(args.formula, measurements)
        self._margin = float(args.safe_variance_margin or 0.0)
        self._sensitivity = float(args.safe_variance_sensitivity or 0.0)
        self._recent: Floats = np.zeros((2, 0))
        """Requests of recently placed pods, as far as the measurement does not contain their usage."""

    def grow(self, capacity: int) -> None:
        """Grow all columns to `capacity` rows."""
        super().grow(capacity)
        self._recent = grown(self._recent, capacity)

    def _write_own(self, entry: NodeEntry) -> None:
        self._recent[:, entry.row] = self._recent_requests(entry)

    def _compute(self, of: ScoringClass, rows: Rows, now: float) -> Floats:
        """Score rows 0..100 by the worse of CPU and memory."""
        columns, demand = self.columns, of.demand
        if self._formula == "upstream":
            total = columns.allocatable[:, rows]
            scores = self._resource_scores(rows, total, node_columns.amount_column(demand.shipped_request))
            return load_variation.score(scores, columns.is_valid[:, rows])
        request = node_columns.amount_column(demand.request)
        measured = self._resource_scores(rows, columns.capacity[:, rows], request + self._recent[:, rows])
        levels = columns.fallback_levels(rows, now)
        of_resources = np.where(levels == FallbackLevel.MEASURED, measured, self._by_requests(rows, request))
        scores = load_variation.score(of_resources, np.ones(levels.shape, dtype=np.bool_))
        return fallback.combine_resources(levels, scores, columns.best_fit(rows, demand.request))

    def _resource_scores(self, rows: Rows, percent_of: Floats, request: Floats) -> Floats:
        """Score each resource of each candidate; percentages are of `percent_of`, fractions of allocatable."""
        columns = self.columns
        total = columns.allocatable[:, rows]
        mean, deviation = (
            np.clip(load_variation.used(percents[:, rows], percent_of), 0.0, total)
            for percents in (columns.mean_percent, columns.deviation_percent)
        )
        if self._formula == "kep":
            return self._designed_scores(mean, deviation, request, total)
        of = load_variation.fractions(mean, deviation, np.maximum(request, 0.0), total)
        return load_variation.shipped_resource_scores(of, total, self._margin, self._sensitivity)

    def _designed_scores(self, mean: Floats, deviation: Floats, request: Floats, total: Floats) -> Floats:
        of = load_variation.fractions(mean, deviation, 0.0, total)
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            share = np.where(total > 0.0, request / total, 1.0)
        return load_variation.designed_resource_scores(of, share, self._margin)

    def _by_requests(self, rows: Rows, request: Floats) -> Floats:
        """Score resources that are not measured: the requests of the pods replace the mean, and the deviation is 0."""
        total = self.columns.allocatable[:, rows]
        nothing = np.zeros(total.shape)
        requested = self.columns.requested[:, rows] + request
        if self._formula == "kep":
            return self._designed_scores(nothing, nothing, requested, total)
        of = load_variation.fractions(nothing, nothing, requested, total)
        return load_variation.shipped_resource_scores(of, total, self._margin, self._sensitivity)
