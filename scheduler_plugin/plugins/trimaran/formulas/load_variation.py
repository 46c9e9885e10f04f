"""LoadVariationRiskBalancing (KEP-61): equalise mean plus deviation of utilization over the nodes.

Arrays have the shape (resources, nodes).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from scheduler_plugin.state import rounding
from scheduler_plugin.state.rounding import Bools, Floats


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
    scores: Floats = np.round((1.0 - np.minimum(1.0, of.mu + request_fraction + margin * of.sigma)) * 100.0, 9)
    return scores


def score(resource_scores: Floats, is_measured: Bools) -> Floats:
    """Return the smallest score of the measured resources, rounded, shape (nodes,); 0 without a measured resource."""
    smallest = np.min(np.where(is_measured, resource_scores, np.inf), axis=0)
    return rounding.half_away_from_zero(np.where(np.isfinite(smallest), smallest, 0.0))
