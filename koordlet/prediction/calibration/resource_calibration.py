"""Calibrated peak of one resource: a ring of usage, the scores of past forecasts, and the forecast under observation.

    CPU:    P = C + lambda B
    memory: P = max( C + B + lambda (L - C),  C + usage of the warm series + J )
    Peak    = min( capacity, max( usage now, min( P, L ) ) )

J is the largest rise of one warm series within one horizon in the last 7 days. Every horizon one forecast is made that
has no effect; when the horizon has passed, the largest usage of its series gives one score (`scores`). All amounts
are shares of the node's capacity.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Final

import numpy as np

from koordlet.prediction.buckets import FloatArray, IntArray
from koordlet.prediction.calibration.day_ring import DayRing
from koordlet.prediction.calibration.scores import MIN_LABELS, Scale, ScoreHistogram

LONGEST_GAP_SECONDS: Final = 300.0
"""A forecast that was watched with a longer gap gives no score: its peak may have been missed."""
_RISE_DAYS: Final = 7
_DAY_SECONDS: Final = 86_400.0
_ROUNDING: Final = 1e-6


class Level(enum.StrEnum):
    """Which answer is in force."""

    N_SIGMA = "n-sigma-v2"
    LARGER = "max"
    CALIBRATED = "calibrated"


@dataclass(frozen=True, eq=False)
class Load:
    """The warm series and what is charged for the others, as shares of capacity."""

    warm_rows: IntArray
    warm_mean: FloatArray
    warm_stdev: FloatArray
    oldest_seconds: float
    """Time of the first record of the oldest warm series."""
    cold: float
    """C."""
    requests: float
    """L: the requests of all pods, and the n-sigma peak of unreserved system usage."""


@dataclass(frozen=True, slots=True)
class _Watched:
    begin_seconds: float
    base: float
    cold: float
    requests: float


class ResourceCalibration:
    """State of one resource; rows are those of the caller's table of series."""

    def __init__(self, scale: Scale, horizon_seconds: float) -> None:
        self.ring = DayRing()
        self.scores = ScoreHistogram(scale, horizon_seconds)
        self._horizon_seconds = horizon_seconds
        self._seconds: float | None = None
        self._now = np.zeros(0)
        self._here = np.zeros(0, bool)
        self._mask = np.zeros(0, bool)
        self._begin = np.zeros(0)
        self._most = np.zeros(0)
        self._rises = np.zeros((0, _RISE_DAYS), np.float16)
        self._rise_day = 0
        self._watched: _Watched | None = None
        self._largest = 0.0

    @property
    def level(self) -> Level:
        """Which answer is in force with the labels seen."""
        if self.scores.labels < MIN_LABELS:
            return Level.N_SIGMA
        return Level.LARGER if self.scores.labels < 2 * MIN_LABELS else Level.CALIBRATED

    @property
    def is_watching(self) -> bool:
        """Whether a forecast is under observation; if not, `watch` begins one."""
        return self._watched is not None

    def tick(
        self, now_seconds: float, rows: IntArray, shares: FloatArray, row_count: int, *, is_capped: bool = False
    ) -> None:
        """Record the usage of all series that run. `is_capped` drops the label: usage was held down meanwhile."""
        self._ensure_rows(row_count)
        if self._seconds is not None and not 0 <= now_seconds - self._seconds <= LONGEST_GAP_SECONDS:
            self._watched = None
        self._follow_day(now_seconds)
        self._seconds = now_seconds
        self._here[:] = False
        self._here[rows] = True
        self._now[:] = 0.0
        self._now[rows] = shares
        self.ring.record(now_seconds, rows, shares)
        np.maximum(self._most, self._now, out=self._most)
        if is_capped:
            self._watched = None
        if self._watched is not None:
            self._largest = max(self._largest, float(self._now[self._mask].sum()))
            if now_seconds - self._watched.begin_seconds >= self._horizon_seconds - _ROUNDING:
                self._close(self._watched, now_seconds)

    def watch(self, load: Load) -> None:
        """Begin a forecast of the series that run now."""
        if self._seconds is None:
            return
        self._watched = _Watched(self._seconds, self._base(load), load.cold, load.requests)
        self._mask[:] = self._here
        self._begin[:] = self._now
        self._most[:] = self._now
        self._largest = 0.0

    def clear(self, rows: IntArray) -> None:
        """Forget series whose rows are given to others. In a forecast they count nothing from now on."""
        rows = rows[rows < len(self._now)]
        self.ring.clear(rows)
        self._mask[rows] = self._here[rows] = False
        self._now[rows] = self._begin[rows] = self._most[rows] = 0.0
        self._rises[rows] = 0.0

    def peak(self, load: Load, n_sigma: float, target_share: float, capacity: float = 1.0) -> float:
        """Return the peak for a target share (0..1) of violations; `n_sigma` is the answer while few labels exist."""
        usage = float(self._now.sum())
        if self.level is Level.N_SIGMA:
            return min(max(n_sigma, usage), capacity)
        multiplier, base = self.scores.multiplier(target_share), self._base(load)
        if self.scores.scale.is_additive:
            rise = float(self._rises[load.warm_rows].max(initial=0.0))
            floor = load.cold + float(self._now[load.warm_rows].sum()) + rise
            found = max(load.cold + base + multiplier * (load.requests - load.cold), floor)
        else:
            found = load.cold + multiplier * base
        found = max(min(found, load.requests), usage)
        return min(max(found, n_sigma) if self.level is Level.LARGER else found, capacity)

    def _base(self, load: Load) -> float:
        now_seconds = self._seconds or 0.0
        return self.ring.base(load.warm_rows, load.warm_mean, load.warm_stdev, load.oldest_seconds, now_seconds)

    def _close(self, watched: _Watched, now_seconds: float) -> None:
        self._watched = None
        still = self._mask & self._here
        today = self._rises[still, 0]
        self._rises[still, 0] = np.maximum(today, self._most[still] - self._begin[still])
        if watched.cold >= watched.requests / 2:
            return  # mostly a charge of requests, not a forecast
        above_cold = self._largest - watched.cold
        if self.scores.scale.is_additive:
            score = (above_cold - watched.base) / (watched.requests - watched.cold)
        else:
            score = max(above_cold / watched.base, 0.0)
        self.scores.add(score, now_seconds)

    def _follow_day(self, now_seconds: float) -> None:
        day = int(now_seconds // _DAY_SECONDS)
        passed = min(max(day - self._rise_day, 0), _RISE_DAYS)
        if passed:
            self._rises[:, passed:] = self._rises[:, :-passed].copy()
            self._rises[:, :passed] = 0.0
        self._rise_day = day

    def _ensure_rows(self, count: int) -> None:
        missing = count - len(self._now)
        if missing <= 0:
            return
        self.ring.ensure_rows(count)
        self._now, self._begin, self._most = (
            np.concatenate([each, np.zeros(missing)]) for each in (self._now, self._begin, self._most)
        )
        self._here, self._mask = (np.concatenate([each, np.zeros(missing, bool)]) for each in (self._here, self._mask))
        self._rises = np.concatenate([self._rises, np.zeros((missing, _RISE_DAYS), np.float16)])
