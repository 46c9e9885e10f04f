"""LowRiskOverCommitment (KEP-357): the risk that pods which use up to their limits find no room.

    risk  = w * limit risk + (1 - w) * load risk
    score = (1 - largest risk of the resources) * 100

Everything on a node is declared by pods: requests R, limits L, both with the incoming pod (`total`) and without it.
"""

from __future__ import annotations

import numpy as np

from scheduler_plugin.plugins.trimaran.formulas import beta_distribution
from scheduler_plugin.state import rounding
from scheduler_plugin.state.rounding import Bools, Floats

ALLOWED_SHARE_OF_VARIANCE = 0.99
"""Of the largest variance a beta distribution of that mean can have."""


def with_best_effort(limits: Floats, capacity: Floats, has_best_effort: Bools) -> Floats:
    """Total limits by the KEP: best-effort pods may use whatever there is."""
    return np.where(has_best_effort, np.maximum(limits, capacity), limits)


def limit_risk(total_request: Floats, total_limit: Floats, capacity: Floats) -> Floats:
    """Share of what limits promise above requests that the node lacks, in [0, 1]; requests count up to capacity."""
    request = np.minimum(total_request, capacity)
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        share = (total_limit - capacity) / (total_limit - request)
    return np.where(total_limit > capacity, share, 0.0)


def smoothed_sigma(mu: Floats, sigma: Floats, smoothing_window: Floats | int) -> Floats:
    """Deviation before the metric was averaged over `smoothing_window` points, within what its mean allows."""
    allowed = np.sqrt(ALLOWED_SHARE_OF_VARIANCE * beta_distribution.largest_variance(mu))
    smoothed: Floats = np.minimum(sigma * np.sqrt(smoothing_window), allowed)
    return smoothed


def load_risk(mu: Floats, sigma: Floats, request: Floats, capacity: Floats) -> tuple[Floats, beta_distribution.Fit]:
    """Chance that utilisation exceeds what the pods there request, and the distribution it comes from (the KEP's).

    mu, sigma: of measured utilisation as fractions of capacity, smoothed; `request` is without the incoming pod.
    """
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        threshold = np.where(capacity > 0.0, np.clip(np.minimum(request, capacity) / capacity, 0.0, 1.0), 0.0)
    below = beta_distribution.probability_below(mu, sigma, threshold)
    return np.where(capacity > 0.0, 1.0 - below.value, 0.0), below.fit


def conditioned_load_risk(
    mu: Floats, sigma: Floats, request: Floats, limit: Floats, capacity: Floats, *, no_limits_are_certain: bool
) -> Floats:
    """The shipped form: given that the pods there stay within their limits, where those are below capacity.

    `no_limits_are_certain`: a node whose pods declare no limits has risk 0 however hot it is, as shipped; else the
    condition does not apply there.
    """
    unconditioned, fit = load_risk(mu, sigma, request, capacity)
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        limit_share = np.where(capacity > 0.0, limit / capacity, 0.0)
        within_limits = beta_distribution.distribution(fit, limit_share)
        conditioned = 1.0 - np.clip((1.0 - unconditioned) / within_limits, 0.0, 1.0)
    applies = (limit < capacity) & (np.minimum(request, capacity) <= limit)
    risk = np.where(applies & fit.is_fitted & (within_limits > 0.0), conditioned, unconditioned)
    if no_limits_are_certain:
        risk = np.where(applies & (limit_share == 0.0), 0.0, risk)
    return np.where(capacity > 0.0, risk, 0.0)


def total_risk(limit_risks: Floats, load_risks: Floats, limit_weight: Floats | float) -> Floats:
    """In [0, 1]; `limit_weight` in [0, 1] is the share of the limit risk."""
    return np.clip(limit_weight * limit_risks + (1.0 - limit_weight) * load_risks, 0.0, 1.0)


def score(risks: Floats) -> Floats:
    """0..100 from the risks of the resources, shape (resources, nodes) -> (nodes,)."""
    return rounding.half_away_from_zero((1.0 - np.max(risks, axis=0)) * 100.0)
