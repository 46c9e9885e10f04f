"""LowRiskOverCommitment: prefer nodes with a low risk of overcommitment by limits and by measured load (KEP-357)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from scheduler_plugin.plugins.trimaran import fallback, node_columns
from scheduler_plugin.plugins.trimaran.args import DEFAULT_WEIGHT, Formula, LowRiskOverCommitmentArgs
from scheduler_plugin.plugins.trimaran.fallback import FallbackLevel
from scheduler_plugin.plugins.trimaran.formulas import load_variation, overcommitment
from scheduler_plugin.plugins.trimaran.measured_plugin import MeasuredPlugin, ScoringClass
from scheduler_plugin.plugins.trimaran.measurements import Measurements
from scheduler_plugin.state import pod_resources
from scheduler_plugin.state.node_columns import Bools, Floats, NodeEntry, Rows, grown
from scheduler_plugin.state.pod_resources import NOTHING, PodAmounts, PodResources


class Declared(NamedTuple):
    """Requests and limits, as counted by a formula."""

    request: PodAmounts
    limit: PodAmounts


def declared(demand: PodResources, formula: Formula) -> Declared:
    """Return requests and limits of one pod. Limits count at least as much as requests, except with formula `kep`."""
    if formula == "upstream":
        return Declared(demand.shipped_request, pod_resources.raised(demand.shipped_limit, demand.shipped_request))
    if formula == "kep":
        return Declared(demand.request, demand.limit)
    return Declared(demand.request, pod_resources.raised(demand.limit, demand.request))


class LowRiskOverCommitment(MeasuredPlugin):
    """Score plugin. The load risk does not depend on the incoming pod, so it is cached by row."""

    name = "LowRiskOverCommitment"

    def __init__(self, args: LowRiskOverCommitmentArgs, measurements: Measurements) -> None:
        super().__init__(args.formula, measurements)
        self._window = args.smoothing_window_size or 1
        self._windows: Mapping[str, int] = args.smoothing_window_sizes or {}
        weights: Mapping[str, float] = args.risk_limit_weights or {}
        self.weights: Floats = np.array([[weights.get(name, DEFAULT_WEIGHT)] for name in node_columns.RESOURCES])
        self.request: Floats = np.zeros((2, 0))
        self.limit: Floats = np.zeros((2, 0))
        self._recent: Floats = np.zeros((2, 0))
        """Requests of recently placed pods, as far as the measurement does not contain their usage."""
        self._has_best_effort: Bools = np.zeros(0, dtype=np.bool_)
        self._load_risk: Floats = np.zeros((2, 0))
        self._needs_load_risk: Bools = np.zeros(0, dtype=np.bool_)
        """Rows whose load risk must be recomputed."""

    def grow(self, capacity: int) -> None:
        """Grow all columns to `capacity` rows."""
        super().grow(capacity)
        self.request, self.limit = grown(self.request, capacity), grown(self.limit, capacity)
        self._recent = grown(self._recent, capacity)
        self._has_best_effort = grown(self._has_best_effort, capacity)
        self._load_risk = grown(self._load_risk, capacity)
        self._needs_load_risk = grown(self._needs_load_risk, capacity)

    def _write_own(self, entry: NodeEntry) -> None:
        placed = [declared(pod.demand, self._formula) for pod in entry.load.pods.values() if pod.demand is not None]
        row = entry.row
        self.request[:, row] = node_columns.summed([pod.request for pod in placed])
        self.limit[:, row] = node_columns.summed([pod.limit for pod in placed])
        if self._formula == "corrected":
            self._recent[:, row] = self._recent_requests(entry)
        self._has_best_effort[row] = any(pod.request == NOTHING and pod.limit == NOTHING for pod in placed)
        self._needs_load_risk[row] = True

    def _compute(self, of: ScoringClass, rows: Rows, now: float) -> Floats:
        """Score rows 0..100 by the worse of CPU and memory."""
        pod_resources = declared(of.demand, self._formula)
        is_best_effort = pod_resources.request == NOTHING and pod_resources.limit == NOTHING
        if is_best_effort and self._formula == "upstream":
            return np.zeros(self.columns.has_measurement[rows].shape)
        limit_risks = self._limit_risks(pod_resources, rows, is_best_effort=is_best_effort)
        risks = overcommitment.total_risk(limit_risks, self._load_risks(rows), self.weights)
        if self._formula == "upstream":
            return np.where(self.columns.has_measurement[rows], overcommitment.score(risks), 0.0)
        levels = self.columns.fallback_levels(rows, now)
        by_limits = overcommitment.total_risk(limit_risks, limit_risks, self.weights)
        scores = overcommitment.score(np.where(levels == FallbackLevel.MEASURED, risks, by_limits))
        return fallback.combine_resources(levels, scores, overcommitment.score(by_limits))

    def _limit_risks(self, pod_resources: Declared, rows: Rows, *, is_best_effort: bool) -> Floats:
        capacity = self.columns.allocatable[:, rows]
        request = self.request[:, rows] + node_columns.amount_column(pod_resources.request)
        limit = self.limit[:, rows] + node_columns.amount_column(pod_resources.limit)
        if self._formula == "kep":
            limit = overcommitment.with_best_effort(limit, capacity, self._has_best_effort[rows] | is_best_effort)
        return overcommitment.limit_risk(request, limit, capacity)

    def _load_risks(self, rows: Rows) -> Floats:
        candidates = np.arange(len(self._needs_load_risk))[rows]
        outdated = candidates[self._needs_load_risk[candidates]]
        if len(outdated):
            self._load_risk[:, outdated] = self._computed_load_risks(outdated)
            self._needs_load_risk[outdated] = False
        risks: Floats = self._load_risk[:, rows]
        return risks

    def _computed_load_risks(self, rows: Rows) -> Floats:
        columns = self.columns
        capacity = columns.allocatable[:, rows]
        percent_of = capacity if self._formula == "upstream" else columns.capacity[:, rows]
        used, deviation = (
            load_variation.used(percents[:, rows], percent_of)
            for percents in (columns.mean_percent, columns.deviation_percent)
        )
        # A new pod's request raises what the node may use, so it has to raise what it is expected to use as well.
        of = load_variation.fractions(used, deviation, self._recent[:, rows], capacity)
        windows = np.array([self._windows.get(name, self._window) for name in columns.providers], dtype=np.float64)
        sigma = overcommitment.unsmoothed_sigma(of.mu, of.sigma, windows[columns.provider[:, rows]])
        request, limit = self.request[:, rows], self.limit[:, rows]
        if self._formula == "kep":
            risk, _fit = overcommitment.load_risk(of.mu, sigma, request, capacity)
        else:
            risk = overcommitment.conditioned_load_risk(
                of.mu, sigma, request, limit, capacity, no_limits_are_certain=self._formula == "upstream"
            )
        return np.where(columns.is_valid[:, rows], risk, 0.0)
