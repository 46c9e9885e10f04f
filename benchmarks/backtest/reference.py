"""Second implementation of `calibrated`, in 64-bit numbers and as plainly as possible, to compare the product with.

It keeps the usage of every pod from the first step on, knows nothing of rows, rings or shares of capacity, and has the
formulas of docs/concepts/prediction.md:

    B      = 1/4 ( max R of 24 h + max R of 6 h + sum over pods of its max of 3 h + sum of mean + 3 stdev )
    CPU    = clip( C + lambda B, U, L )
    memory = clip( max( C + B + lambda (L - C), C + usage of the warm pods + J ), U, L )

Before 48 scores it is n-sigma-v2 or the larger of both.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from koordctl.backtest.node_history import SeriesStay
from koordlet.samples import Resource

SLOT_SECONDS, COLD_SECONDS, HALF_LIFE_OF_MOMENTS = 300, 7200, {Resource.CPU: 43_200.0, Resource.MEMORY: 86_400.0}
LABELS, KAPPA, INFLATION, LEAST_BASE = 24, 0.8, 4.0, 1e-6
GRID = {Resource.CPU: 0.25 * 1.015 ** np.arange(173), Resource.MEMORY: np.arange(-400, 401) / 400}
DAY_SECONDS = 86_400
HALF_LIFE_OF_SCORES = {Resource.CPU: 7 * 86_400.0, Resource.MEMORY: 30 * 86_400.0}
RISE_SECONDS = 7 * 86_400.0


def peaks(
    pods: Sequence[SeriesStay],
    used: np.ndarray,
    requested: Sequence[float],
    predict_at: Sequence[int],
    step_seconds: int,
    horizon_seconds: int,
    resource: Resource,
    target_shares: Sequence[float],
) -> np.ndarray:
    """Return the peaks of one machine, (targets, times). See `benchmarks.backtest.replay.replay` for the arguments."""
    machine = Reference(pods, used, requested, step_seconds, horizon_seconds, resource)
    found = np.empty((len(target_shares), len(predict_at)))
    wanted = {step: column for column, step in enumerate(predict_at)}
    for step in range(max(wanted) + 1):
        machine.advance()
        if step in wanted:
            found[:, wanted[step]] = [machine.peak(share) for share in target_shares]
    return found


@dataclass
class _Open:
    """The forecast that is being watched."""

    step: int
    pods: np.ndarray
    base: float
    cold: float
    requests: float
    weight: float
    highest: float = 0.0


class Reference:
    """One machine from its first step on: `usage` is (pods, steps), as `requests` in cores or GiB."""

    def __init__(self, pods, used, requested, step_seconds, horizon_seconds, resource):
        self.pods, self.step_seconds, self.resource = pods, step_seconds, resource
        self.horizon_seconds = horizon_seconds
        self.usage = _usage_of(pods, np.nan_to_num(used))
        self.requests = np.array([requested[pod.series] for pod in pods], float)
        self.first = np.array([pod.start for pod in pods])
        slots = used.shape[1] * step_seconds // SLOT_SECONDS + 1
        self.of_slots = np.full((len(pods), slots), np.nan)
        self.weight, self.mean, self.spread = np.zeros((3, len(pods)))
        self.of_class, self.of_settled = np.zeros((2, 3))
        self.settled_seconds, self.settled_at = 0, -1
        self.scores, self.labels = np.zeros(len(GRID[resource])), 0
        self.rises: list[tuple[int, np.ndarray, np.ndarray]] = []
        self.open = None
        self.step = -1

    def advance(self) -> None:
        """Take the usage of the next step."""
        self.step += 1
        running = np.flatnonzero(self._running())
        now = self.usage[:, self.step]
        decay = 2 ** (-self.step_seconds / HALF_LIFE_OF_MOMENTS[self.resource])
        for pod in running:
            state = (self.weight[pod], self.mean[pod], self.spread[pod])
            self.weight[pod], self.mean[pod], self.spread[pod] = _with(state, now[pod], decay)
        self.of_class = np.array(_with(self.of_class, now[running].sum(), decay))
        self._add_settled(running, now, decay)
        slot = self.step * self.step_seconds // SLOT_SECONDS
        self.of_slots[running, slot] = np.fmax(self.of_slots[running, slot], now[running])
        if self.open is not None:
            self.open.highest = max(self.open.highest, now[self.open.pods].sum())
            if (self.step - self.open.step) * self.step_seconds >= self.horizon_seconds:
                self._score(self.open)
        if self.open is None:
            warm, charged = self._warm_and_cold()
            base = self._base(warm)
            self.open = _Open(self.step, warm, base, charged, self.requests[running].sum(), self._share_of_day(warm))

    def peak(self, target_share: float, *, is_larger_of_both: bool = True) -> float:
        """Return the peak of now; `is_larger_of_both`: with less than 48 labels not below n-sigma-v2."""
        warm, cold = self._warm_and_cold()
        running = self._running()
        now, requests = self.usage[:, self.step], self.requests[running].sum()
        is_settled = self.settled_seconds >= min(self.step * self.step_seconds / 2, DAY_SECONDS)
        of_class = _sigmas(self.of_settled if is_settled else self.of_class, 5)
        n_sigma = max(of_class, self._sigmas_of(warm, 5).sum() + cold)
        if self.labels < LABELS:
            return min(max(n_sigma, now[running].sum()), requests)
        factor, base = self.factor(target_share), self._base(warm)
        if self.resource is Resource.CPU:
            found = cold + factor * base
        else:
            found = max(cold + base + factor * (requests - cold), cold + now[warm].sum() + self._largest_rise(warm))
        if self.labels < 2 * LABELS and is_larger_of_both:
            found = max(found, n_sigma)
        return min(max(found, now[running].sum()), requests)

    def factor(self, target_share: float) -> float:
        """Return lambda."""
        found, median = self._quantile(1 - KAPPA * target_share), self._quantile(0.5)
        share = INFLATION * self.horizon_seconds / 3600 / self.labels
        return found + share * (found if self.resource is Resource.CPU else found - median)

    def _add_settled(self, running, now, decay) -> None:
        """Add what all pods would use if they were as busy as those that were warm before this step."""
        warm = running[(self.step - 1 - self.first[running]) * self.step_seconds >= COLD_SECONDS]
        requests, of_warm = self.requests[running].sum(), self.requests[warm].sum()
        if len(warm) and of_warm >= requests / 2:
            since = self.step - self.settled_at
            self.of_settled = np.array(_with(self.of_settled, now[warm].sum() * requests / of_warm, decay**since))
            if self.settled_at >= 0:
                self.settled_seconds += min(since, 2) * self.step_seconds
            self.settled_at = self.step

    def _running(self):
        return np.array([pod.start <= self.step < pod.end for pod in self.pods], bool)

    def _warm_and_cold(self):
        running = self._running()
        is_old = (self.step - self.first) * self.step_seconds >= COLD_SECONDS
        cold = np.flatnonzero(running & ~is_old)
        return np.flatnonzero(running & is_old), self.requests[cold].sum()

    def _sigmas_of(self, pods, sigmas):
        return self.mean[pods] + sigmas * np.sqrt(np.maximum(self.spread[pods], 0) / self.weight[pods])

    def _base(self, warm) -> float:
        if not len(warm):
            return LEAST_BASE
        last = self.step * self.step_seconds // SLOT_SECONDS
        day = self.of_slots[warm, max(last - 287, 0) : last + 1]
        totals = np.where(np.isnan(day), self._sigmas_of(warm, 1)[:, np.newaxis], day).sum(axis=0)
        with np.errstate(all="ignore"):
            each = np.nan_to_num(np.fmax.reduce(day[:, -36:], axis=1)).sum()
        return max((totals.max() + totals[-72:].max() + each + self._sigmas_of(warm, 3).sum()) / 4, LEAST_BASE)

    def _share_of_day(self, warm) -> float:
        recorded = (self.step - self.first[warm]) * self.step_seconds
        return np.minimum(recorded / DAY_SECONDS, 1).mean() if len(warm) else 1.0

    def _score(self, done: _Open) -> None:
        self.open = None
        still = done.pods[self._running()[done.pods]]
        largest = self.usage[still, done.step : self.step + 1].max(axis=1) if len(still) else np.zeros(0)
        self.rises.append((self.step, still, largest - self.usage[still, done.step]))
        self.scores *= 2 ** (-(self.step - done.step) * self.step_seconds / HALF_LIFE_OF_SCORES[self.resource])
        if done.cold >= done.requests / 2:
            return
        if self.resource is Resource.CPU:
            score = done.highest / done.base
        else:
            score = (done.highest - done.base) / (done.requests - done.cold)
        grid = GRID[self.resource]
        self.scores[min(np.searchsorted(grid, score - 1e-12), len(grid) - 1)] += done.weight
        self.labels += 1

    def _quantile(self, share: float) -> float:
        cumulated = np.cumsum(self.scores)
        return GRID[self.resource][np.argmax(cumulated >= share * cumulated[-1] - 1e-9)]

    def _largest_rise(self, warm) -> float:
        recent = (self.step - RISE_SECONDS / self.step_seconds, set(warm.tolist()))
        rises = [
            rise
            for step, pods, values in self.rises
            if step > recent[0]
            for pod, rise in zip(pods.tolist(), values.tolist(), strict=True)
            if pod in recent[1]
        ]
        return max([0.0, *rises])


def _usage_of(pods, used):
    """Return the usage of each pod, (pods, steps): that of its series while it runs, 0 before and after."""
    usage = np.zeros((len(pods), used.shape[1]))
    for row, pod in enumerate(pods):
        usage[row, pod.start : pod.end] = used[pod.series, pod.start : pod.end]
    return usage


def _with(moments, value, decay):
    weight, mean, spread = moments
    weight = weight * decay + 1
    away = value - mean
    mean += away / weight
    return weight, mean, spread * decay + away * (value - mean)


def _sigmas(moments, sigmas) -> float:
    weight, mean, spread = moments
    return mean + sigmas * np.sqrt(max(spread, 0) / weight) if weight else 0.0
