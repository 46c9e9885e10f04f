"""Peaks: place a pod on the node whose power draw rises the least.

Utilization is a share of the machine's capacity in every formula, because power models are fitted to that.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from scheduler_plugin.framework import interface
from scheduler_plugin.framework.interface import Scores
from scheduler_plugin.plugins.trimaran import node_columns
from scheduler_plugin.plugins.trimaran.args import PeaksArgs, PowerModel
from scheduler_plugin.plugins.trimaran.fallback import FallbackLevel
from scheduler_plugin.plugins.trimaran.formulas import power
from scheduler_plugin.plugins.trimaran.measured_plugin import MeasuredPlugin, ScoringClass
from scheduler_plugin.plugins.trimaran.measurements import Measurements
from scheduler_plugin.state.node_columns import Floats, Ints, NodeEntry, Rows, grown

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

    def grow(self, capacity: int) -> None:
        """Grow all columns to `capacity` rows."""
        super().grow(capacity)
        self._k = grown(self._k, capacity)

    def _write_own(self, entry: NodeEntry) -> None:
        model = self._models.get(entry.name, _NO_MODEL)
        self._k[:, entry.row] = (model.k1, model.k2)

    def _compute(self, of: ScoringClass, rows: Rows, now: float) -> Floats:
        """Compute the rise of the power in watts, NaN if unknown; `upstream`: scaled to integers, 0 if unknown."""
        columns = self.columns
        is_upstream = self._formula == "upstream"
        capacity = columns.capacity[node_columns.CPU, rows]
        percent = columns.power_percent[rows] if is_upstream else columns.mean_percent[node_columns.CPU, rows]
        request_millis = of.demand.request.cpu_millis
        if is_upstream and request_millis == of.demand.overhead_cpu_millis:
            request_millis = 0  # as shipped: overhead counts only together with a request
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            after = 100.0 * ((percent / 100.0) * capacity + request_millis) / capacity
        k1, k2 = self._k[:, rows]
        jumps = power.jump_watts(percent, after, k1, k2)
        is_known = (after <= 100.0) & np.isfinite(jumps)
        if is_upstream:
            return np.where(is_known, np.trunc(jumps * _SHIPPED_SCALE), 0.0)
        levels = columns.fallback_levels(rows, now)[node_columns.CPU]
        is_known &= ((k1 != 0.0) | (k2 != 0.0)) & (levels == FallbackLevel.MEASURED)
        return np.where(is_known, jumps, np.nan)

    def normalize(self, scores: Scores) -> Ints:
        """Scale to 0..100, where the smallest rise is 100."""
        if self._formula == "upstream":
            return interface.clipped(power.shipped_scores(np.asarray(scores, dtype=np.float64)))
        return interface.clipped(power.score(np.asarray(scores, dtype=np.float64), np.isfinite(scores)))
