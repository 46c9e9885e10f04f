"""Beta distributions with given means and deviations, and their probability of staying below a threshold, over arrays.

The regularised incomplete beta function is evaluated by its continued fraction (Abramowitz and Stegun 26.5.8) with
Lentz's method, on the side of the mean with fast convergence; for narrow distributions by Gauss-Legendre quadrature.
Large parameters go through Stirling's series (6.1.41) in a form in which the large terms cancel before they are
computed.
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple

import numpy as np

from scheduler_plugin.state.node_columns import Bools, Floats

_TINY: Final = 1e-300
_PRECISION: Final = 1e-15
_MAX_STEPS: Final = 2000
"""The number of steps grows with the root of the parameters."""
_COMPACT_BELOW: Final = 0.5
"""Share of unconverged elements below which the converged ones are removed from the loop."""
_NARROW: Final = 1000.0
"""A distribution with both parameters above this is narrow, and is integrated by quadrature at a constant cost."""
_RESOLUTION: Final = 1e-7
"""Smallest deviation, as a fraction of capacity: rounding of the second moment loses a smaller one."""
_FAR: Final = 12.0
"""Deviations from the mean beyond which the probability is negligible."""
_nodes, _weights = np.polynomial.legendre.leggauss(32)
_POINTS: Final = 0.5 * (_nodes + 1.0)
_WEIGHTS: Final = 0.5 * _weights

_log_gamma = np.frompyfunc(math.lgamma, 1, 1)


class Fit(NamedTuple):
    """Parameters of each distribution, 1 and 1 where `is_fitted` is false."""

    alpha: Floats
    beta: Floats
    is_fitted: Bools


def match_moments(first: Floats, second: Floats) -> Fit:
    """Fit distributions to their first two moments; a variance that is impossible on [0, 1] is not fitted."""
    variance = second - first * first
    largest = first * (1.0 - first)
    is_fitted = (first >= 0.0) & (first <= 1.0) & (variance >= 0.0) & (variance < largest)
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        scale = np.maximum(largest / variance - 1.0, np.finfo(np.float64).smallest_subnormal)
        alpha, beta = first * scale, (1.0 - first) * scale
    return Fit(np.where(is_fitted, alpha, 1.0), np.where(is_fitted, beta, 1.0), is_fitted)


def largest_variance(mean: Floats) -> Floats:
    """Return the largest variance of any distribution on [0, 1] with that mean: mean * (1 - mean); 0 outside (0, 1)."""
    return np.where((mean > 0.0) & (mean < 1.0), mean * (1.0 - mean), 0.0)


def probability_below(mu: Floats, sigma: Floats, threshold: Floats) -> tuple[Floats, Fit]:
    """Compute P(utilization <= threshold) and the fitted distributions; mean `mu`, deviation `sigma`, as capacity is 1.

    A deviation below `_RESOLUTION` counts as none, which gives 0 or 1. Without a fitting distribution the result is 0,
    the pessimistic value.
    """
    is_certain = (mu == 0.0) | (sigma < _RESOLUTION)
    fit = match_moments(np.where(is_certain, 0.0, mu), np.where(is_certain, 0.0, sigma * sigma + mu * mu))
    of_certain = np.where((mu == 0.0) | (mu <= threshold), 1.0, 0.0)
    of_fitted = np.where(fit.is_fitted, distribution(fit, threshold), 0.0)
    return np.where(is_certain, of_certain, of_fitted), fit


def distribution(of: Fit, x: Floats) -> Floats:
    """Return the cumulative distribution at x; 0 outside [0, 1] and for parameters that are not positive."""
    alpha, beta, x = np.broadcast_arrays(of.alpha, of.beta, np.asarray(x, dtype=np.float64))
    values = np.where(x == 1.0, 1.0, 0.0)
    inside = (x > 0.0) & (x < 1.0) & (alpha > 0.0) & (beta > 0.0) & np.isfinite(alpha) & np.isfinite(beta)
    if inside.any():
        values[inside] = _regularised(alpha[inside], beta[inside], x[inside])
    values[~((alpha > 0.0) & (beta > 0.0))] = 0.0
    return values


def _log_beta(alpha: Floats, beta: Floats) -> Floats:
    small, large = np.minimum(alpha, beta), np.maximum(alpha, beta)
    by_series = -(large - 0.5) * np.log1p(small / large) - small * (np.log(small + large) - 1.0)
    by_series += _stirling_rest(large) - _stirling_rest(small + large)
    by_function = np.asarray(_log_gamma(large) - _log_gamma(small + large), dtype=np.float64)
    of_small = np.asarray(_log_gamma(small), dtype=np.float64)
    return of_small + np.where(large > _NARROW, by_series, by_function)


def _stirling_rest(of: Floats) -> Floats:
    """Return ln gamma(z) - ((z - 1/2) ln z - z + ln(2 pi) / 2) for z above `_NARROW`, exact to the last digit."""
    inverse = 1.0 / np.maximum(of, _NARROW)
    return inverse / 12.0 - inverse**3 / 360.0


def _regularised(alpha: Floats, beta: Floats, x: Floats) -> Floats:
    values = np.empty_like(x)
    is_narrow = np.minimum(alpha, beta) > _NARROW
    for chosen, method in ((is_narrow, _by_quadrature), (~is_narrow, _by_continued_fraction)):
        if chosen.any():
            values[chosen] = method(alpha[chosen], beta[chosen], x[chosen])
    return np.clip(values, 0.0, 1.0)


def _by_quadrature(alpha: Floats, beta: Floats, x: Floats) -> Floats:
    """Integrate the density of a narrow, nearly normal distribution from x away from the mean."""
    scale = alpha + beta
    mean, rest = alpha / scale, beta / scale
    deviation = np.sqrt(mean * rest / (scale + 1.0))
    is_left = x < mean
    far = np.where(
        is_left,
        np.maximum(0.0, np.minimum(mean - _FAR * deviation, x - _FAR / 2.0 * deviation)),
        np.minimum(1.0, np.maximum(mean + _FAR * deviation, x + _FAR / 2.0 * deviation)),
    )
    from_mean = (x - mean)[:, np.newaxis] + (far - x)[:, np.newaxis] * _POINTS
    with np.errstate(divide="ignore", invalid="ignore"):
        logarithm = (alpha - 1.0)[:, np.newaxis] * np.log1p(from_mean / mean[:, np.newaxis])
        logarithm += (beta - 1.0)[:, np.newaxis] * np.log1p(-from_mean / rest[:, np.newaxis])
    peak = 0.5 * np.log(scale / (2.0 * math.pi * mean * rest))
    peak += _stirling_rest(scale) - _stirling_rest(alpha) - _stirling_rest(beta)
    area: Floats = np.nansum(np.exp(logarithm) * _WEIGHTS, axis=1) * np.abs(far - x) * np.exp(peak)
    return np.where(is_left, area, 1.0 - area)


def _by_continued_fraction(alpha: Floats, beta: Floats, x: Floats) -> Floats:
    front = np.exp(alpha * np.log(x) + beta * np.log1p(-x) - _log_beta(alpha, beta))
    is_left = x < (alpha + 1.0) / (alpha + beta + 2.0)
    a, b = np.where(is_left, alpha, beta), np.where(is_left, beta, alpha)
    tail = front * _continued_fraction(a, b, np.where(is_left, x, 1.0 - x)) / a
    return np.where(is_left, tail, 1.0 - tail)


def _continued_fraction(a: Floats, b: Floats, x: Floats) -> Floats:
    """Evaluate the fraction by Lentz's method for all elements at once; converged elements leave the loop."""
    result = np.empty_like(x)
    pending = np.arange(len(x))
    c = np.ones_like(x)
    d = 1.0 / _away_from_zero(1.0 - (a + b) * x / (a + 1.0))
    value = d.copy()
    for step in range(1, _MAX_STEPS):
        even = step * (b - step) * x / ((a + 2 * step - 1.0) * (a + 2 * step))
        odd = -(a + step) * (a + b + step) * x / ((a + 2 * step) * (a + 2 * step + 1.0))
        for term in (even, odd):
            d = 1.0 / _away_from_zero(1.0 + term * d)
            c = _away_from_zero(1.0 + term / c)
            change = c * d
            value = value * change
        unconverged = np.abs(change - 1.0) >= _PRECISION
        if unconverged.mean() < _COMPACT_BELOW:
            result[pending[~unconverged]] = value[~unconverged]
            pending = pending[unconverged]
            a, b, x, c, d, value = (array[unconverged] for array in (a, b, x, c, d, value))
            if not len(pending):
                break
    result[pending] = value
    return result


def _away_from_zero(values: Floats) -> Floats:
    return np.where(np.abs(values) < _TINY, _TINY, values)
