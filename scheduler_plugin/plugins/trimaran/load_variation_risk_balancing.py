"""LoadVariationRiskBalancing: prefer nodes with a low sum of mean load and its deviation (KEP-61).

The arrays of the formulas have the shape (resources, nodes).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from scheduler_plugin.plugins.trimaran import node_columns
from scheduler_plugin.plugins.trimaran.args import LoadVariationRiskBalancingArgs
from scheduler_plugin.plugins.trimaran.measured_plugin import MeasuredPlugin
from scheduler_plugin.plugins.trimaran.measurements import Measurements
from scheduler_plugin.plugins.trimaran.node_columns import FallbackLevel
from scheduler_plugin.state import vectors
from scheduler_plugin.state.node_columns import Bools, Floats, NodeEntry, Rows
from scheduler_plugin.state.pod_info import PodResources


class Fractions(NamedTuple):
    """Mean and standard deviation of utilization, as fractions of capacity in [0, 1]; 0 without capacity."""

    mu: Floats
    sigma: Floats


def used(percent: Floats, capacity: Floats) -> Floats:
    """Convert percent of capacity to an amount in the unit of `capacity`."""
    return percent * capacity / 100.0


def fractions(used_mean: Floats, used_deviation: Floats, request: Floats | float, capacity: Floats) -> Fractions:
    """Return the fractions of each resource and node, with the pod's request; all arguments have one unit."""
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        mu = np.clip((used_mean + request) / capacity, 0.0, 1.0)
        sigma = np.clip(used_deviation / capacity, 0.0, 1.0)
    has_capacity = capacity > 0.0
    return Fractions(np.where(has_capacity, mu, 0.0), np.where(has_capacity, sigma, 0.0))


def shipped_resource_scores(of: Fractions, capacity: Floats, margin: float, sensitivity: float) -> Floats:
    """Compute (1 - (mu + margin * sigma^(1/sensitivity)) / 2) * 100; 0 without capacity, not rounded.

    With sensitivity 0 only a deviation as large as the node counts. Sensitivity is not negative.
    """
    sigma = of.sigma ** (1.0 / sensitivity if sensitivity > 0.0 else np.inf)
    sigma = np.clip(sigma * margin, 0.0, 1.0)
    risk = (of.mu + sigma) / 2.0
    return np.where(capacity > 0.0, (1.0 - risk) * 100.0, 0.0)


def designed_resource_scores(of: Fractions, request_fraction: Floats, margin: float) -> Floats:
    """Compute the KEP's (1 - min(1, M + r + margin * V)) * 100, with `of` taken without the request.

    The result has nine decimals, so that an exact 42.5 rounds as 42.5.
    """
    return np.round((1.0 - np.minimum(1.0, of.mu + request_fraction + margin * of.sigma)) * 100.0, 9)


def smallest_score(resource_scores: Floats, is_measured: Bools) -> Floats:
    """Return the smallest score of the measured resources, rounded, shape (nodes,); 0 without a measured resource."""
    smallest = np.min(np.where(is_measured, resource_scores, np.inf), axis=0)
    return vectors.half_away_from_zero(np.where(np.isfinite(smallest), smallest, 0.0))


class LoadVariationRiskBalancing(MeasuredPlugin):
    """Score plugin."""

    name = "LoadVariationRiskBalancing"

    def __init__(self, args: LoadVariationRiskBalancingArgs, measurements: Measurements) -> None:
        super().__init__(args.formula, measurements)
        self._margin = float(args.safe_variance_margin or 0.0)
        self._sensitivity = float(args.safe_variance_sensitivity or 0.0)
        self._recent: Floats = np.zeros((2, 0))
        """Requests of recently placed pods, as far as the measurement does not contain their usage."""

    def _write_own(self, entry: NodeEntry) -> None:
        self._recent[:, entry.row] = self._recent_requests(entry)

    def _compute(self, demand: PodResources, rows: Rows, now: float) -> Floats:
        """Score rows 0..100 by the worse of CPU and memory."""
        columns = self.columns
        if self._formula == "upstream":
            total = columns.allocatable[:, rows]
            scores = self._resource_scores(rows, total, node_columns.amount_column(demand.shipped_request))
            return smallest_score(scores, columns.is_valid[:, rows])
        request = node_columns.amount_column(demand.request)
        measured = self._resource_scores(rows, columns.capacity[:, rows], request + self._recent[:, rows])
        levels = columns.fallback_levels(rows, now)
        of_resources = np.where(levels == FallbackLevel.MEASURED, measured, self._by_requests(rows, request))
        scores = smallest_score(of_resources, np.ones(levels.shape, dtype=np.bool_))
        return node_columns.combine_resources(levels, scores, columns.best_fit(rows, demand.request))

    def _resource_scores(self, rows: Rows, percent_of: Floats, request: Floats) -> Floats:
        """Score each resource of each candidate; percentages are of `percent_of`, fractions of allocatable."""
        columns = self.columns
        total = columns.allocatable[:, rows]
        mean, deviation = (
            np.clip(used(percents[:, rows], percent_of), 0.0, total)
            for percents in (columns.mean_percent, columns.deviation_percent)
        )
        if self._formula == "kep":
            return self._designed_scores(mean, deviation, request, total)
        of = fractions(mean, deviation, np.maximum(request, 0.0), total)
        return shipped_resource_scores(of, total, self._margin, self._sensitivity)

    def _designed_scores(self, mean: Floats, deviation: Floats, request: Floats, total: Floats) -> Floats:
        of = fractions(mean, deviation, 0.0, total)
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            share = np.where(total > 0.0, request / total, 1.0)
        return designed_resource_scores(of, share, self._margin)

    def _by_requests(self, rows: Rows, request: Floats) -> Floats:
        """Score resources that are not measured: the requests of the pods replace the mean, and the deviation is 0."""
        total = self.columns.allocatable[:, rows]
        nothing = np.zeros(total.shape)
        requested = self.columns.requested[:, rows] + request
        if self._formula == "kep":
            return self._designed_scores(nothing, nothing, requested, total)
        of = fractions(nothing, nothing, requested, total)
        return shipped_resource_scores(of, total, self._margin, self._sensitivity)
