"""LowRiskOverCommitment (KEP-357): risk that a node lacks capacity for pods that use up to their limits.

    risk  = w * limit risk + (1 - w) * load risk
    score = (1 - largest risk of the resources) * 100

Requests R and limits L of a node are sums over its pods, with the incoming pod (`total`) or without it.
"""

from __future__ import annotations

import numpy as np

from scheduler_plugin.plugins.trimaran.formulas import beta_distribution
from scheduler_plugin.state import rounding
from scheduler_plugin.state.rounding import Bools, Floats

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
    unsmoothed: Floats = np.minimum(sigma * np.sqrt(smoothing_window), allowed)
    return unsmoothed


def load_risk(mu: Floats, sigma: Floats, request: Floats, capacity: Floats) -> tuple[Floats, beta_distribution.Fit]:
    """Compute the probability that utilization exceeds the requests, as in KEP-357; also return the distribution.

    mu, sigma: of measured utilization as fractions of capacity, after `unsmoothed_sigma`; `request` is without the
    incoming pod.
    """
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        threshold = np.where(capacity > 0.0, np.clip(np.minimum(request, capacity) / capacity, 0.0, 1.0), 0.0)
    below = beta_distribution.probability_below(mu, sigma, threshold)
    return np.where(capacity > 0.0, 1.0 - below.value, 0.0), below.fit


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


def score(risks: Floats) -> Floats:
    """Score the largest risk of the resources 0..100, shape (resources, nodes) -> (nodes,)."""
    return rounding.half_away_from_zero((1.0 - np.max(risks, axis=0)) * 100.0)
