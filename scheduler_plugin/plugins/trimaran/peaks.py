"""Peaks: place a pod on the node whose power draw rises the least; power = k0 + k1 * exp(k2 * utilization percent).

Utilization is a share of the machine's capacity in every formula, because power models are fitted to that.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from scheduler_plugin.framework import interface
from scheduler_plugin.framework.interface import Scores
from scheduler_plugin.plugins.trimaran import node_columns
from scheduler_plugin.plugins.trimaran.args import PeaksArgs, PowerModel
from scheduler_plugin.plugins.trimaran.measured_plugin import MeasuredPlugin
from scheduler_plugin.plugins.trimaran.measurements import Measurements
from scheduler_plugin.plugins.trimaran.node_columns import FallbackLevel
from scheduler_plugin.state.node_columns import Bools, Floats, Ints, NodeEntry, Rows
from scheduler_plugin.state.pod_info import PodResources


def jump_watts(from_percent: Floats, to_percent: Floats, k1: Floats, k2: Floats) -> Floats:
    """Compute the rise of the power draw between two utilizations; k0 cancels out."""
    with np.errstate(over="ignore", invalid="ignore"):
        rise: Floats = k1 * (np.exp(k2 * to_percent) - np.exp(k2 * from_percent))
    return rise


def power_scores(jumps: Floats, is_known: Bools) -> Floats:
    """Score each candidate 0..100, the smallest jump 100; unknown ones score 0 and do not affect the scale."""
    scores = np.zeros(len(jumps))
    known_jumps = jumps[is_known]
    if len(known_jumps):
        lowest, span = known_jumps.min(), known_jumps.max() - known_jumps.min()
        scores[is_known] = 100.0 - np.trunc(100.0 * (known_jumps - lowest) / span) if span > 0.0 else 100.0
    return scores


def shipped_power_scores(raw: Floats) -> Floats:
    """Scale raw scores as shipped: they are jumps * 1e15, cut to integers; all 0 stays 0, else the lowest is 100."""
    if not len(raw):
        return raw
    lowest, highest = raw.min(), raw.max()
    if lowest == highest:
        return np.full(len(raw), 0.0 if highest == 0.0 else 100.0)
    scores: Floats = 100.0 - np.trunc(100.0 * (raw - lowest) / (highest - lowest))
    return scores


_NO_MODEL: Final = PowerModel()
_SHIPPED_SCALE: Final = 1e15


class Peaks(MeasuredPlugin):
    """Score plugin. A node without a power model or a measurement gets the lowest score."""

    name = "Peaks"

    def __init__(self, args: PeaksArgs, measurements: Measurements) -> None:
        super().__init__(args.formula, measurements)
        self._models = args.node_power_model or {}
        self._k: Floats = np.zeros((2, 0))
        """Coefficients k1 and k2 of each node; k0 cancels out."""

    def _write_own(self, entry: NodeEntry) -> None:
        model = self._models.get(entry.name, _NO_MODEL)
        self._k[:, entry.row] = (model.k1, model.k2)

    def _compute(self, demand: PodResources, rows: Rows, now: float) -> Floats:
        """Compute the rise of the power in watts, NaN if unknown; `upstream`: scaled to integers, 0 if unknown."""
        columns = self.columns
        is_upstream = self._formula == "upstream"
        capacity = columns.capacity[node_columns.CPU, rows]
        percent = columns.power_percent[rows] if is_upstream else columns.mean_percent[node_columns.CPU, rows]
        request_millis = demand.request.cpu_millis
        if is_upstream and request_millis == demand.overhead_cpu_millis:
            request_millis = 0  # as shipped: overhead counts only together with a request
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            after = 100.0 * ((percent / 100.0) * capacity + request_millis) / capacity
        k1, k2 = self._k[:, rows]
        jumps = jump_watts(percent, after, k1, k2)
        is_known = (after <= 100.0) & np.isfinite(jumps)
        if is_upstream:
            return np.where(is_known, np.trunc(jumps * _SHIPPED_SCALE), 0.0)
        levels = columns.fallback_levels(rows, now)[node_columns.CPU]
        is_known &= ((k1 != 0.0) | (k2 != 0.0)) & (levels == FallbackLevel.MEASURED)
        return np.where(is_known, jumps, np.nan)

    def normalize(self, scores: Scores) -> Ints:
        """Scale to 0..100, where the smallest rise is 100."""
        if self._formula == "upstream":
            return interface.clipped(shipped_power_scores(np.asarray(scores, dtype=np.float64)))
        return interface.clipped(power_scores(np.asarray(scores, dtype=np.float64), np.isfinite(scores)))
