"""Compute the oracle: the smallest sufficient peak, known only afterwards (Bashir et al., EuroSys 2021).

    PO(t) = max over u in (t, t + H] of the sum over p in J(t) of min(U_p(u), L_p)

J(t) are the pods that run at t. A pod that arrives later does not count, one that has left counts 0: later decisions
of the scheduler are not part of the prediction. Without a future the oracle is the sum of the limits.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from koordctl.backtest.placement import SeriesStay
from koordlet.prediction.buckets import FloatArray, IntArray


class Stays:
    """When each pod runs. Arrays have one element for each pod, in the order of the sequence."""

    def __init__(self, pods: Sequence[SeriesStay]) -> None:
        self.series: IntArray = np.array([pod.series for pod in pods], np.intp)
        self._start: IntArray = np.array([pod.start for pod in pods], np.intp)
        self._end: IntArray = np.array([pod.end for pod in pods], np.intp)

    def running_at(self, step: int) -> IntArray:
        """Return the indices of the pods that run at a step, ascending."""
        return np.flatnonzero((self._start <= step) & (step < self._end))

    def usage_after(self, used: FloatArray, pods: IntArray, step: int, steps: int) -> FloatArray:
        """Return the usage of pods that run at `step` in the steps that follow, (pods, steps); 0 after the end of each.

        `used` is (series, steps). There are fewer steps at the end of the series.
        """
        future = used[self.series[pods], step + 1 : step + 1 + steps]
        later = np.arange(step + 1, step + 1 + future.shape[1])
        return np.where(later < self._end[pods][:, np.newaxis], future, 0.0)


def peak(future: FloatArray, limits: FloatArray) -> float:
    """Return the oracle in the unit of usage, from the usage that follows, (pods, steps), and the limits, (pods,)."""
    if future.shape[1] == 0:
        return float(limits.sum())
    return float(np.minimum(future, limits[:, np.newaxis]).sum(axis=0).max())
