"""TargetLoadPacking: fill nodes up to a target CPU utilisation, then spread (KEP-61, reference trimaran section 4)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import numpy as np

from scheduler_plugin.plugins.trimaran import node_columns
from scheduler_plugin.plugins.trimaran.args import TargetLoadPackingArgs
from scheduler_plugin.plugins.trimaran.fallback import FallbackLevel
from scheduler_plugin.plugins.trimaran.formulas import target_load
from scheduler_plugin.plugins.trimaran.measured_plugin import UNMEASURED_SECONDS, MeasuredPlugin, ScoringClass
from scheduler_plugin.plugins.trimaran.measurements import Measurements
from scheduler_plugin.state import rounding
from scheduler_plugin.state.node_columns import Floats, NodeEntry, Rows, grown
from scheduler_plugin.state.pod_resources import ContainerCpu, PodResources

_MOST_PREDICTIONS: Final = 4096  # kept at a time


def predicted_millis(demand: PodResources, multiplier: float, default_millis: int, *, with_sidecars: bool) -> int:
    """CPU a pod is predicted to use: each container's limit, else a multiple of its request, else a default."""
    running: Iterable[ContainerCpu] = demand.containers + (demand.sidecars if with_sidecars else ())
    return sum(container_millis(each, multiplier, default_millis) for each in running) + demand.overhead_cpu_millis


def container_millis(container: ContainerCpu, multiplier: float, default_millis: int) -> int:
    """Of one container, in milli-cores."""
    if container.limit is not None:
        return container.limit
    if container.request is not None:
        return rounding.int_half_away_from_zero(container.request * multiplier)
    return default_millis


class TargetLoadPacking(MeasuredPlugin):
    """The policy; scores only."""

    name = "TargetLoadPacking"

    def __init__(self, args: TargetLoadPackingArgs, readings: Measurements) -> None:
        super().__init__(args.formula, readings)
        self._target_percent = float(args.target_utilization or 0)
        self._multiplier = 1.0 if args.formula == "kep" else args.multiplier()
        self._default_millis = args.default_millis()
        self._predictions: dict[PodResources, int] = {}
        self._recent_millis: Floats = np.zeros(0)
        """Predicted for pods that the newest measurement cannot contain."""
        self._predicted_millis: Floats = np.zeros(0)
        """Predicted for all pods of the node."""

    def grow(self, capacity: int) -> None:
        """Make room for `capacity` rows."""
        super().grow(capacity)
        self._recent_millis = grown(self._recent_millis, capacity)
        self._predicted_millis = grown(self._predicted_millis, capacity)

    def _write_own(self, entry: NodeEntry) -> None:
        row, end = entry.row, self.columns.window_end[entry.row]
        recent = total = 0
        for pod in entry.load.pods.values():
            predicted = self._predict(pod.demand)
            total += predicted
            if end - pod.timestamp < UNMEASURED_SECONDS:
                recent += predicted
        self._recent_millis[row], self._predicted_millis[row] = recent, total

    def _compute(self, of: ScoringClass, rows: Rows | slice, now: float) -> Floats:
        """0..100, 100 at the utilisation that is the target."""
        columns, wanted = self.columns, float(self._predict(of.demand))
        capacity = columns.capacity[node_columns.CPU, rows]
        total = capacity if self._formula == "upstream" else columns.allocatable[node_columns.CPU, rows]
        percent = columns.packing_percent[rows]
        used = (percent / 100.0) * capacity
        utilisation = target_load.utilisation_percent(used, wanted, self._recent_millis[rows], total)
        scores = np.where(np.isnan(percent), 0.0, target_load.score(utilisation, self._target_percent))
        if self._formula == "upstream":
            return scores
        rungs = columns.rungs(rows, now)
        predicted = target_load.utilisation_percent(self._predicted_millis[rows], wanted, np.zeros(total.shape), total)
        scores = np.select(
            [rungs == FallbackLevel.MEASURED, rungs == FallbackLevel.PREDICTED, rungs == FallbackLevel.BY_REQUESTS],
            [scores, target_load.score(predicted, self._target_percent), columns.best_fit(rows, of.demand.request)],
            default=0.0,
        )
        return np.where(total > 0.0, scores, 0.0)

    def _predict(self, demand: PodResources | None) -> int:
        """Kept by demand: pods of a workload share it."""
        if demand is None:
            return 0
        known = self._predictions.get(demand)
        if known is None:
            if len(self._predictions) > _MOST_PREDICTIONS:
                self._predictions.clear()
            known = self._predictions[demand] = self._predict_anew(demand)
        return known

    def _predict_anew(self, demand: PodResources) -> int:
        if self._formula == "kep":
            requests = demand.request.cpu_millis
            return requests or self._default_millis
        with_sidecars = self._formula == "corrected"
        return predicted_millis(demand, self._multiplier, self._default_millis, with_sidecars=with_sidecars)
