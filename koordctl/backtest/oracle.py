"""Compute the oracle: the smallest sufficient peak, known only afterwards (Bashir et al., EuroSys 2021).

    PO(t) = max over u in (t, t + H] of the sum over p in J(t) of min(U_p(u), L_p)

J(t) are the pods that run at t. A pod that arrives later does not count, one that has left counts 0: later decisions
of the scheduler are not part of the prediction. Without a future the oracle is the sum of the limits.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from koordctl.backtest.placement import Pod
from koordlet.prediction.buckets import FloatArray


def usage_of_pods(pods: Sequence[Pod], cores: FloatArray) -> FloatArray:
    """Return the usage of each pod, (pods, steps): that of its series while it runs, 0 before and after.

    `cores` is (series, steps).
    """
    usage: FloatArray = np.zeros((len(pods), cores.shape[1]))
    for row, pod in enumerate(pods):
        usage[row, pod.start : pod.end] = cores[pod.series, pod.start : pod.end]
    return usage


def running_at(pods: Sequence[Pod], step: int) -> np.ndarray:
    """Return whether each pod runs at a step."""
    return np.array([pod.start <= step < pod.end for pod in pods], bool)


def peak(usage: FloatArray, limits: FloatArray, running: np.ndarray, step: int, horizon_steps: int) -> float:
    """Return the oracle at a step, in cores, from usage (pods, steps), limits and running pods (one element each)."""
    future = usage[running, step + 1 : step + 1 + horizon_steps]
    if future.shape[1] == 0:
        return float(limits[running].sum())
    return float(np.minimum(future, limits[running, np.newaxis]).sum(axis=0).max())
