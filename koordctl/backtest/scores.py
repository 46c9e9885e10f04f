"""Score predictions against the oracle: rate, severity and episodes of violations.

    PO(t) = max over u in (t, t + H] of the sum over p in J(t) of min(U_p(u), L_p)

The oracle PO is the smallest sufficient peak, known only afterwards. J(t) are the pods that run at t. A pod that
arrives later does not count, one that has left counts 0: later decisions of the scheduler are not part of the
prediction. Without a future the oracle is the sum of the limits.

    violation(m, t) = P < PO            severity(m, t) = max(0, PO - P) / PO

Definitions of Bashir et al. (EuroSys 2021). A violation is a prediction that was too low, not yet an overloaded
machine. Violations cluster, so their episodes are counted too: runs of predictions that are all violations.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from koordctl.backtest.node_history import SeriesStay
from koordlet.prediction.histogram_bank import FloatArray, IntArray


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


def oracle_peak(future: FloatArray, limits: FloatArray) -> float:
    """Return the oracle in the unit of usage, from the usage that follows, (pods, steps), and the limits, (pods,)."""
    if future.shape[1] == 0:
        return float(limits.sum())
    return float(np.minimum(future, limits[:, np.newaxis]).sum(axis=0).max())


ROUNDING_CORES = 1e-9
HOURS_A_WEEK = 168


@dataclass(frozen=True, slots=True)
class ForecastScore:
    """Ratios are 0..1."""

    violation_rate: float
    severity: float
    """Mean over all predictions, those without a violation included."""
    episodes_a_machine_week: float


def severities(peaks: FloatArray, oracle: FloatArray) -> FloatArray:
    """Return the severity of each prediction, in cores; 0 without a violation."""
    missing = np.divide(oracle - peaks, oracle, out=np.zeros_like(oracle), where=oracle > 0)
    return np.where(oracle - peaks > ROUNDING_CORES, missing, 0)


def score(peaks: FloatArray, oracle: FloatArray, interval_hours: float) -> ForecastScore:
    """Score predictions; both arrays are (machines, times), in cores."""
    severity = severities(peaks, oracle)
    violations = severity > 0
    begins = violations & ~np.pad(violations, ((0, 0), (1, 0)))[:, :-1]
    return ForecastScore(
        violation_rate=float(violations.mean()),
        severity=float(severity.mean()),
        episodes_a_machine_week=float(begins.sum() / (violations.size * interval_hours / HOURS_A_WEEK)),
    )
