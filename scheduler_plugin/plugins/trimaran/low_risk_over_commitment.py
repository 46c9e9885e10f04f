"""LowRiskOverCommitment: prefer nodes with a low risk of overcommitment by limits and by measured load (KEP-357).

    risk  = w * limit risk + (1 - w) * load risk
    score = (1 - largest risk of the resources) * 100

Requests R and limits L of a node are sums over its pods, with the incoming pod (`total`) or without it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from scheduler_plugin.plugins.trimaran import beta_distribution, load_variation_risk_balancing, node_columns
from scheduler_plugin.plugins.trimaran.args import DEFAULT_WEIGHT, Formula, LowRiskOverCommitmentArgs
from scheduler_plugin.plugins.trimaran.measured_plugin import MeasuredPlugin
from scheduler_plugin.plugins.trimaran.measurements import Measurements
from scheduler_plugin.plugins.trimaran.node_columns import FallbackLevel
from scheduler_plugin.state import pod_info, vectors
from scheduler_plugin.state.node_columns import Bools, Floats, NodeEntry, Rows
from scheduler_plugin.state.pod_info import NOTHING, PodAmounts, PodResources

ALLOWED_SHARE_OF_VARIANCE = 0.99
"""Largest accepted variance, as a share of the largest variance of a beta distribution with that mean."""

LEAST_CREDIBLE = 1e-3
"""Probability of usage within the limits below which the measurement contradicts that pods stay within them."""


def with_best_effort(limits: Floats, capacity: Floats, has_best_effort: Bools) -> Floats:
    """Return the total limits of the KEP: with best-effort pods they are at least the capacity."""
    return np.where(has_best_effort, np.maximum(limits, capacity), limits)


def limit_risk(total_request: Floats, total_limit: Floats, capacity: Floats) -> Floats:
    """Compute (L - capacity) / (L - R), the share of limits above requests that the node lacks, in [0, 1].

    Requests count up to capacity.
    """
    request = np.minimum(total_request, capacity)
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        share = (total_limit - capacity) / (total_limit - request)
    return np.where(total_limit > capacity, share, 0.0)


def unsmoothed_sigma(mu: Floats, sigma: Floats, smoothing_window: Floats | int) -> Floats:
    """Return sigma * sqrt(smoothing_window), the deviation before the metric was averaged over that many points.

    It is limited by the largest deviation that the mean allows.
    """
    allowed = np.sqrt(ALLOWED_SHARE_OF_VARIANCE * beta_distribution.largest_variance(mu))
    return np.minimum(sigma * np.sqrt(smoothing_window), allowed)


def load_risk(mu: Floats, sigma: Floats, request: Floats, capacity: Floats) -> tuple[Floats, beta_distribution.Fit]:
    """Compute the probability that utilization exceeds the requests, as in KEP-357; also return the distribution.

    mu, sigma: of measured utilization as fractions of capacity, after `unsmoothed_sigma`; `request` is without the
    incoming pod.
    """
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        threshold = np.where(capacity > 0.0, np.clip(np.minimum(request, capacity) / capacity, 0.0, 1.0), 0.0)
    below, fit = beta_distribution.probability_below(mu, sigma, threshold)
    return np.where(capacity > 0.0, 1.0 - below, 0.0), fit


def conditioned_load_risk(
    mu: Floats, sigma: Floats, request: Floats, limit: Floats, capacity: Floats, *, no_limits_are_certain: bool
) -> Floats:
    """Compute the shipped load risk: usage exceeds the requests, assuming that pods stay within their limits.

    The assumption applies only if all limits together fit the node. With `no_limits_are_certain` a node whose pods have
    no limits has risk 0 at any load, as shipped; otherwise the assumption does not apply there, nor where the measured
    usage contradicts it: a quotient of two vanishing probabilities could let a hotter node have the smaller risk.
    """
    unconditioned, fit = load_risk(mu, sigma, request, capacity)
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        limit_share = np.where(capacity > 0.0, limit / capacity, 0.0)
        within_limits = beta_distribution.distribution(fit, limit_share)
        conditioned = 1.0 - np.clip((1.0 - unconditioned) / within_limits, 0.0, 1.0)
    applies = (limit < capacity) & (np.minimum(request, capacity) <= limit)
    least = 0.0 if no_limits_are_certain else LEAST_CREDIBLE
    risk = np.where(applies & fit.is_fitted & (within_limits > least), conditioned, unconditioned)
    if no_limits_are_certain:
        risk = np.where(applies & (limit_share == 0.0), 0.0, risk)
    return np.where(capacity > 0.0, risk, 0.0)


def total_risk(limit_risks: Floats, load_risks: Floats, limit_weight: Floats | float) -> Floats:
    """Return the weighted risk in [0, 1]; `limit_weight` in [0, 1] is the weight of the limit risk."""
    return np.clip(limit_weight * limit_risks + (1.0 - limit_weight) * load_risks, 0.0, 1.0)


def risk_score(risks: Floats) -> Floats:
    """Score the largest risk of the resources 0..100, shape (resources, nodes) -> (nodes,)."""
    return vectors.half_away_from_zero((1.0 - np.max(risks, axis=0)) * 100.0)


class Declared(NamedTuple):
    """Requests and limits, as counted by a formula."""

    request: PodAmounts
    limit: PodAmounts


def declared(demand: PodResources, formula: Formula) -> Declared:
    """Return requests and limits of one pod. Limits count at least as much as requests, except with formula `kep`."""
    if formula == "upstream":
        return Declared(demand.shipped_request, pod_info.raised(demand.shipped_limit, demand.shipped_request))
    if formula == "kep":
        return Declared(demand.request, demand.limit)
    return Declared(demand.request, pod_info.raised(demand.limit, demand.request))


class LowRiskOverCommitment(MeasuredPlugin):
    """Score plugin. The load risk does not depend on the incoming pod, so it is cached by row."""

    name = "LowRiskOverCommitment"

    def __init__(self, args: LowRiskOverCommitmentArgs, measurements: Measurements) -> None:
        super().__init__(args.formula, measurements)
        self._window = args.smoothing_window_size or 1
        self._windows: Mapping[str, int] = args.smoothing_window_sizes or {}
        weights: Mapping[str, float] = args.risk_limit_weights or {}
        self.weights = [[weights.get(name, DEFAULT_WEIGHT)] for name in node_columns.RESOURCES]
        """Shape (2, 1); no array, because arrays grow with the rows."""
        self.request: Floats = np.zeros((2, 0))
        self.limit: Floats = np.zeros((2, 0))
        self._recent: Floats = np.zeros((2, 0))
        """Requests of recently placed pods, as far as the measurement does not contain their usage."""
        self._has_best_effort: Bools = np.zeros(0, dtype=np.bool_)
        self._load_risk: Floats = np.zeros((2, 0))
        self._needs_load_risk: Bools = np.zeros(0, dtype=np.bool_)
        """Rows whose load risk must be recomputed."""

    def _write_own(self, entry: NodeEntry) -> None:
        demands = [self._demand(pod) for pod in entry.load.pods.values()]
        placed = [declared(demand, self._formula) for demand in demands if demand is not None]
        row = entry.row
        self.request[:, row] = node_columns.summed([pod.request for pod in placed])
        self.limit[:, row] = node_columns.summed([pod.limit for pod in placed])
        if self._formula == "corrected":
            self._recent[:, row] = self._recent_requests(entry)
        self._has_best_effort[row] = any(pod.request == NOTHING and pod.limit == NOTHING for pod in placed)
        self._needs_load_risk[row] = True

    def _compute(self, demand: PodResources, rows: Rows, now: float) -> Floats:
        """Score rows 0..100 by the worse of CPU and memory."""
        pod_resources = declared(demand, self._formula)
        is_best_effort = pod_resources.request == NOTHING and pod_resources.limit == NOTHING
        if is_best_effort and self._formula == "upstream":
            return np.zeros(self.columns.has_measurement[rows].shape)
        capacity = self.columns.allocatable[:, rows]
        request = self.request[:, rows] + node_columns.amount_column(pod_resources.request)
        limit = self.limit[:, rows] + node_columns.amount_column(pod_resources.limit)
        if self._formula == "kep":
            limit = with_best_effort(limit, capacity, self._has_best_effort[rows] | is_best_effort)
        limit_risks = limit_risk(request, limit, capacity)
        risks = total_risk(limit_risks, self._load_risks(rows), np.array(self.weights))
        if self._formula == "upstream":
            return np.where(self.columns.has_measurement[rows], risk_score(risks), 0.0)
        levels = self.columns.fallback_levels(rows, now)
        by_limits = total_risk(limit_risks, limit_risks, np.array(self.weights))
        scores = risk_score(np.where(levels == FallbackLevel.MEASURED, risks, by_limits))
        return node_columns.combine_resources(levels, scores, risk_score(by_limits))

    def _load_risks(self, rows: Rows) -> Floats:
        candidates = np.arange(len(self._needs_load_risk))[rows]
        outdated = candidates[self._needs_load_risk[candidates]]
        if len(outdated):
            self._load_risk[:, outdated] = self._computed_load_risks(outdated)
            self._needs_load_risk[outdated] = False
        return self._load_risk[:, rows]

    def _computed_load_risks(self, rows: Rows) -> Floats:
        columns = self.columns
        capacity = columns.allocatable[:, rows]
        percent_of = capacity if self._formula == "upstream" else columns.capacity[:, rows]
        used, deviation = (
            load_variation_risk_balancing.used(percents[:, rows], percent_of)
            for percents in (columns.mean_percent, columns.deviation_percent)
        )
        # A new pod's request raises what the node may use, so it has to raise what it is expected to use as well.
        of = load_variation_risk_balancing.fractions(used, deviation, self._recent[:, rows], capacity)
        windows = np.array([self._windows.get(name, self._window) for name in columns.providers], dtype=np.float64)
        sigma = unsmoothed_sigma(of.mu, of.sigma, windows[columns.provider[:, rows]])
        request, limit = self.request[:, rows], self.limit[:, rows]
        if self._formula == "kep":
            risk, _fit = load_risk(of.mu, sigma, request, capacity)
        else:
            risk = conditioned_load_risk(
                of.mu, sigma, request, limit, capacity, no_limits_are_certain=self._formula == "upstream"
            )
        return np.where(columns.is_valid[:, rows], risk, 0.0)
