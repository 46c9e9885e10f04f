"""TargetLoadPacking: fill nodes up to a target CPU utilization, then spread (KEP-61).

U = 100 * (used + pod + recently placed pods) / capacity
score = (100 - X) * U / X + X      for U <= X
        X * (100 - U) / (100 - X)  for X < U <= 100
        0                          above
"""

from __future__ import annotations

import operator
from collections.abc import Iterable
from typing import Final

import numpy as np

from scheduler_plugin.plugins.trimaran import node_columns
from scheduler_plugin.plugins.trimaran.args import TargetLoadPackingArgs
from scheduler_plugin.plugins.trimaran.measured_plugin import MeasuredPlugin
from scheduler_plugin.plugins.trimaran.measurements import Measurements
from scheduler_plugin.plugins.trimaran.node_columns import FallbackLevel
from scheduler_plugin.state import vectors
from scheduler_plugin.state.node_columns import Floats, NodeEntry, Rows
from scheduler_plugin.state.pod_info import ContainerCpu, PodResources


def utilization_percent(
    used_millis: Floats, pod_millis: float, recent_millis: Floats, capacity_millis: Floats
) -> Floats:
    """Compute the CPU utilization of each node with the pod, in percent, shape (nodes,); 0 without capacity.

    `used_millis` is measured; `recent_millis` is the predicted usage of pods that the measurement cannot contain yet.
    """
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        percent = 100.0 * (used_millis + pod_millis + recent_millis) / capacity_millis
    return np.where(capacity_millis > 0.0, percent, 0.0)


def target_load_score(utilization: Floats, target_percent: float) -> Floats:
    """Score each utilization in percent 0..100; the target, in (0, 100], scores 100."""
    rising = (100.0 - target_percent) * utilization / target_percent + target_percent
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        falling = target_percent * (100.0 - utilization) / (100.0 - target_percent)
    of_busy = np.where(utilization > 100.0, 0.0, falling)
    return vectors.half_away_from_zero(np.where(utilization <= target_percent, rising, of_busy))


_MAX_PREDICTIONS: Final = 4096  # cached at a time


def predicted_millis(demand: PodResources, multiplier: float, default_millis: int, *, with_sidecars: bool) -> int:
    """Predict the CPU of a pod in milli-cores: each container's limit, else a multiple of its request or a default."""
    running: Iterable[ContainerCpu] = demand.containers + (demand.sidecars if with_sidecars else ())
    return (
        sum(container_millis(container, multiplier, default_millis) for container in running)
        + demand.overhead_cpu_millis
    )


def container_millis(container: ContainerCpu, multiplier: float, default_millis: int) -> int:
    """Predict the CPU of one container in milli-cores."""
    if container.limit is not None:
        return container.limit
    if container.request is not None:
        return vectors.int_half_away_from_zero(container.request * multiplier)
    return default_millis


class TargetLoadPacking(MeasuredPlugin):
    """Score plugin."""

    name = "TargetLoadPacking"

    def __init__(self, args: TargetLoadPackingArgs, measurements: Measurements) -> None:
        super().__init__(args.formula, measurements)
        self._target_percent = float(args.target_utilization or 0)
        self._multiplier = args.multiplier()
        self._default_millis = args.default_millis()
        self._predictions: dict[PodResources, int] = {}
        self._recent_millis: Floats = np.zeros(0)
        """Predicted usage of recently placed pods that the measurement does not contain."""
        self._predicted_millis: Floats = np.zeros(0)
        """Predicted usage of all pods of the node."""

    def _write_own(self, entry: NodeEntry) -> None:
        predicted = [self._predict_placed(self._demand(pod)) for pod in entry.load.pods.values()]
        shares = self._unmeasured_shares(entry, node_columns.CPU)
        self._recent_millis[entry.row] = sum(map(operator.mul, predicted, shares))
        self._predicted_millis[entry.row] = sum(predicted)

    def _compute(self, demand: PodResources, rows: Rows, now: float) -> Floats:
        """Score rows 0..100, with 100 at the target utilization."""
        columns, pod_millis = self.columns, float(self._predict(demand))
        capacity = columns.capacity[node_columns.CPU, rows]
        total = capacity if self._formula == "upstream" else columns.allocatable[node_columns.CPU, rows]
        is_upstream = self._formula == "upstream"
        percent = columns.packing_percent[rows] if is_upstream else columns.mean_percent[node_columns.CPU, rows]
        used = (percent / 100.0) * capacity
        utilization = utilization_percent(used, pod_millis, self._recent_millis[rows], total)
        scores = np.where(np.isnan(percent), 0.0, target_load_score(utilization, self._target_percent))
        if is_upstream:
            return scores
        levels = columns.fallback_levels(rows, now)[node_columns.CPU]
        predicted = utilization_percent(self._predicted_millis[rows], pod_millis, np.zeros(total.shape), total)
        scores = np.select(
            [levels == FallbackLevel.MEASURED, levels == FallbackLevel.PREDICTED, levels == FallbackLevel.BY_REQUESTS],
            [scores, target_load_score(predicted, self._target_percent), columns.best_fit(rows, demand.request)],
            default=0.0,
        )
        return np.where(total > 0.0, scores, 0.0)

    def _predict_placed(self, demand: PodResources | None) -> int:
        """Return the predicted CPU of a placed pod. The KEP has a multiplier and a default for these alone."""
        if self._formula != "kep" or demand is None:
            return self._predict(demand)
        overhead = demand.overhead_cpu_millis
        requested = vectors.int_half_away_from_zero((demand.request.cpu_millis - overhead) * self._multiplier)
        return (requested or self._default_millis) + overhead

    def _predict(self, demand: PodResources | None) -> int:
        """Return the predicted CPU in milli-cores, cached by requests and limits, which pods of a workload share."""
        if demand is None:
            return 0
        prediction = self._predictions.get(demand)
        if prediction is None:
            if len(self._predictions) > _MAX_PREDICTIONS:
                self._predictions.clear()
            prediction = self._predictions[demand] = (
                demand.request.cpu_millis
                if self._formula == "kep"
                else predicted_millis(
                    demand, self._multiplier, self._default_millis, with_sidecars=self._formula == "corrected"
                )
            )
        return prediction
