"""Peaks: place a pod where the power draw rises the least; power = k0 + k1 * exp(k2 * utilization percent)."""

from __future__ import annotations

import numpy as np

from scheduler_plugin.state.rounding import Bools, Floats


def jump_watts(from_percent: Floats, to_percent: Floats, k1: Floats, k2: Floats) -> Floats:
    """Compute the rise of the power draw between two utilizations; k0 cancels out."""
    with np.errstate(over="ignore", invalid="ignore"):
        rise: Floats = k1 * (np.exp(k2 * to_percent) - np.exp(k2 * from_percent))
    return rise


def score(jumps: Floats, is_known: Bools) -> Floats:
    """Score each candidate 0..100, the smallest jump 100; unknown ones score 0 and do not affect the scale."""
    scores = np.zeros(len(jumps))
    known_jumps = jumps[is_known]
    if len(known_jumps):
        lowest, span = known_jumps.min(), known_jumps.max() - known_jumps.min()
        scores[is_known] = 100.0 - np.trunc(100.0 * (known_jumps - lowest) / span) if span > 0.0 else 100.0
    return scores


def shipped_scores(raw: Floats) -> Floats:
    """Scale raw scores as shipped: they are jumps * 1e15, cut to integers; all 0 stays 0, else the lowest is 100."""
    if not len(raw):
        return raw
    lowest, highest = raw.min(), raw.max()
    if lowest == highest:
        return np.full(len(raw), 0.0 if highest == 0.0 else 100.0)
    scores: Floats = 100.0 - np.trunc(100.0 * (raw - lowest) / (highest - lowest))
    return scores
