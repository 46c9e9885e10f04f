"""Replay one machine through calibrated peaks of CPU, beside the predictors that need no own state."""

import numpy as np

from koordlet.prediction.calibration.resource_calibration import Load, ResourceCalibration
from koordlet.prediction.calibration.scores import CPU_SCALE
from koordlet.samples import Resource, SeriesKey, SeriesKind


class CalibratedMachine:
    """A calibration of the CPU of one machine whose pods are numbered; its system uses nothing."""

    def __init__(self, requests, horizon_seconds, models):
        """Read means and deviations from `models`, which the caller trains before each step."""
        self._requests = np.asarray(requests, float)
        self._capacity = float(self._requests.sum())  # of all pods that ever run: only a unit
        self._calibration = ResourceCalibration(CPU_SCALE, horizon_seconds)
        self._models = models
        self._row_of = {}
        self._free = []
        self._seconds = None

    def step(self, now_seconds, pods, cores):
        """Record one step: numbers of the pods that run, and what each used."""
        gone = set(self._row_of) - set(pods)
        for pod in gone:
            self._free.append(self._row_of.pop(pod))
        new = [pod for pod in pods if pod not in self._row_of]
        self._calibration.clear(np.array([self._take(pod) for pod in new], int))
        rows = np.array([self._row_of[pod] for pod in pods], int)
        count = len(self._row_of) + len(self._free)
        self._calibration.tick(now_seconds, rows, np.asarray(cores) / self._capacity, count)
        self._pods, self._rows, self._seconds = np.asarray(pods, int), rows, now_seconds
        if not self._calibration.is_watching:
            self._calibration.watch(self._load())

    def peak(self, n_sigma_cores, target_share):
        """Return the calibrated peak in cores."""
        found = self._calibration.peak(self._load(), n_sigma_cores / self._capacity, target_share)
        return found * self._capacity

    def _take(self, pod):
        self._row_of[pod] = self._free.pop() if self._free else len(self._row_of)
        return self._row_of[pod]

    def _load(self):
        keys = [SeriesKey(SeriesKind.POD, f"pod-{pod}") for pod in self._pods]
        warm = self._models.recorded_seconds(keys) >= 7200
        statistics = self._models.statistics(
            Resource.CPU, [key for key, is_warm in zip(keys, warm, strict=True) if is_warm]
        )
        requests = self._requests[self._pods] / self._capacity
        return Load(
            warm_rows=self._rows[warm],
            warm_mean=statistics.mean() / self._capacity,
            warm_stdev=statistics.stdev() / self._capacity,
            oldest_seconds=float(self._models.first_seconds(keys).min(initial=np.inf)),
            cold=float(requests[~warm].sum()),
            requests=float(requests.sum()),
        )
